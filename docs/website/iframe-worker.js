// The search runs in a worker, which browsers refuse to pages of the file system. There a hidden frame takes its place:
// a script that sets `onmessage` and calls `postMessage` finds both.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage && this.onmessage({ data }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        this.ready = true;
        this.waiting.forEach((data) => this.postMessage(data));
      };
      inside.document.body.append(script);
    }
    postMessage(data) {
      if (this.ready) setTimeout(() => this.frame.contentWindow.onmessage({ data }));
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}

// In a notebook: the page in a frame that can reach nothing; its questions go to the kernel, the answers come back.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("title", model.get("title"));
  frame.style.cssText = "border: 0; width: 100%; height: 640px";
  frame.srcdoc = model.get("page");
  const ask = (event) => event.source === frame.contentWindow && model.send(event.data);
  const tell = (message) => frame.contentWindow && frame.contentWindow.postMessage(message, "*"); // it has no origin
  addEventListener("message", ask);
  model.on("msg:custom", tell);
  el.append(frame);
  return () => {
    removeEventListener("message", ask);
    model.off("msg:custom", tell);
  };
}

export default { render };

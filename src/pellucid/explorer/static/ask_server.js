// Only on a page that a local server sent: it asks that server; the token is in the address.

async function asked(what, content) {
  const token = new URLSearchParams(location.search).get("token") || "";
  const answer = await fetch(`/${what}`, {
    method: "POST",
    headers: { "X-Pellucid-Token": token },
    body: JSON.stringify(content),
  }).catch(() => null);
  if (!answer) throw new Error("Pellucid does not answer any more: is `pellucid explore` still running?");
  const found = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  if (found.error) throw new Error(found.error);
  return found;
}

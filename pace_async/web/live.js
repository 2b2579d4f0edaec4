"use strict";
// Keeps a page as new as the run's rows: after a commit the same address is asked again, and what differs is put in place.
(() => {
  const live = document.body.dataset.live;
  if (!live) return;
  const [says, main, drawn] = ["live", "content", "tree"].map((id) => document.getElementById(id));
  const parts = (root) => [...root.children].map((child) => child.outerHTML);
  let shown = parts(main), waiting = 0, busy = false, late = false, failed = false;

  async function renew() {
    if (busy) { late = true; return; }
    [busy, late, failed] = [true, false, false];
    const begun = performance.now();
    let again = 0;
    try {
      if (drawn) {
        again = (await window.paceTree?.renew()) ?? 0;
      } else {
        const answer = await fetch(location.href, { credentials: "same-origin" });
        if (!answer.ok) throw new Error(String(answer.status));
        again = Number(answer.headers.get("X-Pace-Again") || 0);
        put(new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content"));
      }
    } catch {
      says.textContent = "no answer";
      failed = true;
    }
    busy = false;
    const rest = Math.max(again * 1000, late ? 3 * (performance.now() - begun) : 0);
    if (again || late) { clearTimeout(waiting); waiting = setTimeout(renew, Math.max(200, rest)); }
  }

  function put(fresh) {
    const next = parts(fresh);
    const typing = (node) => node.contains(document.activeElement) && document.activeElement.matches("input, select");
    if (next.length !== shown.length) {
      if (![...main.children].some(typing)) { main.replaceChildren(...fresh.children); shown = next; }
      return;
    }
    const news = [...fresh.children];
    next.forEach((text, at) => {
      const old = main.children[at];
      if (text === shown[at] || typing(old) || old.querySelector("form[method=post]")) return;
      const focus = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const [left, top] = [old.scrollLeft, old.scrollTop];
      old.replaceWith(news[at]);
      news[at].scrollTo(left, top);
      if (focus) news[at].querySelector(`a[href="${CSS.escape(focus)}"]`)?.focus();
      shown[at] = text;
    });
  }

  // A window that nobody sees holds no connection: a browser has few to one server, and one too many would wait forever.
  let source = null;
  function connect() {
    source?.close();
    if (document.hidden) return;
    const mine = source = new EventSource(live);
    mine.onopen = () => { says.textContent = "live"; if (failed) renew(); };
    mine.onmessage = () => { says.textContent = "live"; renew(); };
    mine.onerror = () => { says.textContent = `not connected: ${mine.readyState === 2 ? "reload the page" : "trying again"}`; };
  }
  document.addEventListener("visibilitychange", connect);
  connect();
})();

// Keeps the newest text in view unless the reader scrolled up, and takes files dropped anywhere on the page.
(() => {
  const followed = () => document.querySelector(".ra-messages");
  new MutationObserver(() => {
    const box = followed();
    if (box && box.dataset.away !== "yes") box.scrollTop = box.scrollHeight;
  }).observe(document.documentElement, { childList: true, subtree: true, characterData: true });
  document.addEventListener(
    "scroll",
    ({ target: box }) => {
      if (box !== followed()) return;
      box.dataset.away = box.scrollHeight - box.scrollTop - box.clientHeight > 90 ? "yes" : "no";
    },
    true,
  );

  const holdsFiles = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
  const target = () => document.querySelector("[data-uploader]");
  let depth = 0;
  const mark = (change) => {
    depth = Math.max(0, change);
    document.body.classList.toggle("ra-dropping", depth > 0);
  };
  document.addEventListener("dragenter", (event) => holdsFiles(event) && target() && mark(depth + 1));
  document.addEventListener("dragleave", (event) => holdsFiles(event) && mark(depth - 1));
  document.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    mark(0);
    if (target()) getElement(Number(target().dataset.uploader)).$refs.qRef.addFiles(event.dataTransfer.files);
  });
})();

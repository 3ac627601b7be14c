// Search on pages of file://, where browsers make no workers: the worker's script runs in a hidden frame instead.
// The search script recognises the frame by the name IFrameWorker in its parent.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.worker = this;
      this.frame.srcdoc =
        "<script>postMessage = data => frameElement.worker.receive(data)</" + "script>" +
        `<script src="${url}"></` + "script>";
      this.frame.addEventListener("load", () => this.begin());
      document.body.append(this.frame);
    }

    begin() {
      const waiting = this.waiting;
      this.waiting = null;
      for (const data of waiting) this.postMessage(data);
    }

    receive(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}

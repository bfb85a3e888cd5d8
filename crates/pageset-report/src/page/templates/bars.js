// Values of bars on pointing at them, and with the arrow keys. Without this script the bars have the same texts as titles.
'use strict';
(() => {
  for (const figure of document.querySelectorAll('figure.bars')) {
    const tip = document.createElement('div');
    tip.className = 'tip';
    tip.setAttribute('role', 'status');
    figure.append(tip);
    figure.setAttribute('aria-description', 'The arrow keys read the values.');
    const charts = [...figure.querySelectorAll('svg')].map((svg) => ({
      svg,
      marks: [...svg.querySelectorAll('.mark')].map((mark) => {
        const title = mark.querySelector('title');
        const text = title.textContent;
        title.remove();
        return {mark, text};
      }),
    }));
    let at = null;
    const show = (found) => {
      at?.mark.classList.remove('at');
      at = found;
      if (!at) {
        tip.textContent = '';
        return;
      }
      at.mark.classList.add('at');
      tip.textContent = at.text;
      const mark = at.mark.getBoundingClientRect(), frame = figure.getBoundingClientRect();
      const left = Math.min(mark.left - frame.left, frame.width - tip.offsetWidth);
      const above = mark.top - frame.top - tip.offsetHeight - 6;
      tip.style.left = `${Math.max(0, left)}px`;
      tip.style.top = `${above >= 0 ? above : mark.bottom - frame.top + 6}px`;
    };
    const shown = () => charts.find(({svg}) => svg.getBoundingClientRect().width > 0);
    // The distance of a point from a rectangle.
    const outside = (least, value, most) => Math.max(least - value, 0, value - most);
    figure.addEventListener('pointermove', (event) => {
      let nearest = null, least = 24;
      for (const one of shown()?.marks ?? []) {
        const box = one.mark.getBoundingClientRect();
        const away = Math.hypot(outside(box.left, event.clientX, box.right), outside(box.top, event.clientY, box.bottom));
        if (away < least) {
          [nearest, least] = [one, away];
        }
      }
      if (nearest !== at) {
        show(nearest);
      }
    });
    figure.addEventListener('pointerleave', () => show(null));
    figure.addEventListener('blur', () => show(null));
    figure.addEventListener('keydown', (event) => {
      const marks = shown()?.marks ?? [];
      const place = marks.indexOf(at);
      const to = {
        ArrowDown: place + 1, ArrowRight: place + 1, ArrowUp: Math.max(0, place - 1), ArrowLeft: Math.max(0, place - 1),
        Home: 0, End: marks.length - 1, Escape: -1,
      }[event.key];
      if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) {
        return;
      }
      event.preventDefault();
      show(to < 0 ? null : marks[Math.min(to, marks.length - 1)] ?? null);
    });
  }
})();

// Charts over time: values at the cursor, zoom by brushing, keys. All charts share the span of time and the cursor. Without
// this script the page shows the same drawings.
'use strict';
(() => {
  const charts = [];
  // How long a span of time must stay before its details are drawn. A guess.
  const REST_MS = 120;
  // What all charts show, and where the cursor is. Unit: seconds.
  let shown = [0, Infinity], cursor = null;

  const element = (tag, parent, properties = {}) => {
    const made = Object.assign(document.createElement(tag), properties);
    parent.append(made);
    return made;
  };
  const shape = (tag, parent, attributes) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    parent.append(made);
    return made;
  };
  const clamp = (value, least, most) => Math.min(most, Math.max(least, value));

  // A number as in the tables.
  const plain = (value) => {
    const size = Math.abs(value);
    if (Math.abs(value - Math.round(value)) < 1e-9 || size >= 1000) {
      return Math.round(value).toLocaleString('en-US');
    }
    return size < 0.1 ? String(Number(value.toPrecision(2))) : value.toFixed(size < 10 ? 2 : 1);
  };
  // The first place in sorted times at or after a time.
  const first = (times, time) => {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  };
  const nearest = (times, time) => {
    const after = clamp(first(times, time), 0, times.length - 1), before = Math.max(0, after - 1);
    return time - times[before] < times[after] - time ? before : after;
  };

  // The places of the smallest and of the largest value of each column, in their order. No peak is lost.
  const thinned = (values, begin, end, columns) => {
    const kept = [], size = Math.max(1, (end - begin) / columns);
    let least = -1, most = -1, edge = begin + size;
    const keep = () => {
      if (least >= 0) kept.push(Math.min(least, most));
      if (least !== most) kept.push(Math.max(least, most));
      least = most = -1;
    };
    for (let at = begin; at < end; at += 1) {
      if (at >= edge) {
        keep();
        edge += size;
      }
      const value = values[at];
      if (value == null) continue;
      if (least < 0 || value < values[least]) least = at;
      if (most < 0 || value > values[most]) most = at;
    }
    keep();
    return kept;
  };

  class Chart {
    constructor(figure, data) {
      Object.assign(this, {figure, data, seen: true, row: 0});
      this.times = data.times ?? data.values[0].map((_, column) => (column + 0.5) * data.step);
      this.drawings = [...figure.querySelectorAll('svg.chart')].map((svg) => {
        const area = svg.querySelector('.area'), box = svg.viewBox.baseVal;
        const [x, y, width, height] = ['x', 'y', 'width', 'height'].map((name) => Number(area.getAttribute(name)));
        // Lines are a layer of their own, which the browser moves without drawing it again.
        const plot = svg.querySelector('.plot'), layer = shape('g', plot, {class: 'layer'});
        layer.append(...svg.querySelectorAll('polyline'));
        // The span of time that the chart shows, and the one that its points are of.
        return {svg, area, x, y, width, height, box, plot, layer, span: [0, data.seconds].join(), drawn: [0, data.seconds]};
      });
      const holder = figure.querySelector('.static');
      this.cross = element('div', holder, {className: 'cross'});
      this.brush = element('div', holder, {className: 'brush'});
      this.mark(this.cross, null);
      this.mark(this.brush, null);
      this.tools();
    }

    tools() {
      const {figure, data} = this;
      const tools = element('div', figure, {className: 'tools'});
      figure.prepend(tools);
      const button = (text, label, run) => {
        const made = element('button', tools, {type: 'button', textContent: text});
        made.setAttribute('aria-label', label);
        made.addEventListener('click', run);
        return made;
      };
      button('+', 'Zoom in', () => this.around(0.5));
      button('−', 'Zoom out', () => this.around(2));
      this.whole = button('Whole time', 'Show the whole time', () => zoom(0, Infinity));
      this.whole.disabled = true;
      this.at = element('span', tools, {className: 'at'});
      this.status = element('span', figure, {className: 'skip'});
      this.status.setAttribute('role', 'status');
      if (data.kind === 'heat') return;
      const names = [...figure.querySelectorAll('.series li')];
      this.entries = data.series.flatMap((line, i) => {
        if (line.dashed) return [];
        // A bound follows its line.
        const bound = data.series[i + 1]?.dashed ? i + 1 : null;
        const item = names.shift(), parts = [...item.children], button = element('button', item, {type: 'button'});
        button.append(...parts);
        button.setAttribute('aria-pressed', 'true');
        button.addEventListener('click', () => {
          const show = button.getAttribute('aria-pressed') !== 'true';
          button.setAttribute('aria-pressed', String(show));
          for (const {svg} of this.drawings) {
            const lines = svg.querySelectorAll('polyline');
            for (const place of [i, bound]) lines[place]?.classList.toggle('off', !show);
          }
        });
        return [{i, bound, name: line.name, value: element('span', button, {className: 'value'})}];
      });
    }

    // The drawing on the screen: that for a wide one or that for a phone.
    drawing() {
      // To look again after each change would lay the page out again.
      this.visible ??= this.drawings.find(({svg}) => svg.getBoundingClientRect().width > 0) ?? this.drawings[0];
      return this.visible;
    }

    // Puts an element above the drawing, which is not drawn again: at a place, and so wide.
    mark(element, left, wide = 0) {
      element.hidden = left == null;
      if (left == null) return;
      const {box, y, height} = this.drawing(), part = (value, of) => `${value / of * 100}%`;
      Object.assign(element.style, {left: part(left, box.width), top: part(y, box.height), height: part(height, box.height)});
      if (element === this.brush) element.style.width = part(wide, box.width);
    }

    // The part of the time that is shown: the common one, if this chart has it.
    span() {
      const [from, to] = [Math.max(0, shown[0]), Math.min(shown[1], this.data.seconds)];
      return from < to ? [from, to] : [0, this.data.seconds];
    }

    // Shows the span of time: moves what is drawn, and draws the details when the span rests.
    draw() {
      const {data} = this, drawing = this.drawing(), {svg, x, width} = drawing, [from, to] = this.span();
      this.whole.disabled = from <= 0 && to >= data.seconds;
      if (!this.seen || drawing.span === [from, to].join()) return;
      drawing.span = [from, to].join();
      const scale = width / (to - from), place = (time) => x + (time - from) * scale;
      clearTimeout(this.rest);
      if (from < drawing.drawn[0] || to > drawing.drawn[1]) this.lines([0, data.seconds]);
      this.view();
      if (data.kind !== 'heat') this.rest = setTimeout(() => this.lines(this.span()), REST_MS);
      const ticks = svg.querySelectorAll('.seconds'), {y: below} = {y: ticks[0]?.getAttribute('y')};
      ticks.forEach((tick) => tick.remove());
      const raw = (to - from) / 4, power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= raw);
      for (let i = Math.ceil(from / step); i * step <= to * 1.000001; i += 1) {
        const text = `${Number((i * step).toPrecision(7))} s`;
        shape('text', svg, {class: 'tick seconds', x: place(i * step), y: below, 'text-anchor': 'middle'}).textContent = text;
      }
    }

    // Shows the part of what is drawn that the span has. Lines are stretched until their details are drawn.
    view() {
      const {plot, layer, drawn, x, y, width, height} = this.drawing(), [from, to] = this.span();
      const scale = width / (drawn[1] - drawn[0]), left = x + (from - drawn[0]) * scale, by = (drawn[1] - drawn[0]) / (to - from);
      if (this.data.kind === 'heat') plot.setAttribute('viewBox', [left, y - 2, width / by, height + 4].join(' '));
      else layer.style.transform = `translate(${x - left * by}px, 0) scale(${by}, 1)`;
    }

    // Draws the lines in a span of time.
    lines([from, to]) {
      const {data} = this, drawing = this.drawing(), {svg, x, y, width, height} = drawing;
      const scale = width / (to - from), round = (value) => Math.round(value * 10) / 10;
      const part = (value) => data.bottom > 0 ? Math.log(value / data.bottom) / Math.log(data.top / data.bottom) : value / data.top;
      const level = (value) => y + height * (1 - (value > data.bottom ? clamp(part(value), 0, 1) : 0));
      // Lines begin and end beyond the edges.
      const begin = Math.max(0, first(this.times, from) - 1), end = first(this.times, to) + 1;
      svg.querySelectorAll('polyline').forEach((line, i) => {
        const {values} = data.series[i], kept = thinned(values, this.known(i, begin) ?? begin, Math.min(end, this.times.length), width / 2);
        line.setAttribute('points', kept.map((at) => `${round(x + (this.times[at] - from) * scale)},${round(level(values[at]))}`).join(' '));
      });
      drawing.drawn = [from, to];
      this.view();
    }

    // The place of the last value of a line at or before a place: lines have points of their own.
    known(line, place) {
      const {values} = this.data.series[line];
      while (place >= 0 && values[place] == null) place -= 1;
      return place < 0 ? null : place;
    }

    // Shows the cursor and the values at it.
    point() {
      const {data} = this, {x, width} = this.drawing(), [from, to] = this.span();
      const out = cursor == null || cursor < from || cursor > to || this.times.length === 0;
      if (!this.seen && !out) return;
      const at = out ? null : nearest(this.times, cursor);
      this.mark(this.cross, out ? null : x + ((data.kind === 'heat' ? cursor : this.times[at]) - from) / (to - from) * width);
      const time = out ? 0 : data.kind === 'heat' ? at * data.step : this.times[at], span = to - from;
      const when = `${time.toFixed(span < 1 ? 4 : span < 100 ? 3 : 1)} s`;
      let said;
      if (data.kind === 'heat') {
        const value = out ? null : data.values[this.row][at];
        said = value == null ? '' : `${data.names[this.row]} ${plain(value)} ${data.unit}`;
        this.at.textContent = out ? '' : `${when}: ${said}`;
      } else {
        said = this.entries.map(({i, bound, name, value}) => {
          const [own, most] = [i, bound].map((line) => {
            const place = out || line == null ? null : this.known(line, at);
            return place == null ? '' : plain(data.series[line].values[place]);
          });
          value.textContent = own && most ? `${own} of ${most}` : own;
          return own && `${name} ${value.textContent}`;
        }).filter(Boolean).join(', ');
        this.at.textContent = out ? '' : when;
      }
      return out ? '' : `${when}: ${said}`;
    }

    // Zooms around the cursor or the middle.
    around(factor) {
      const [from, to] = this.span(), at = cursor == null ? (from + to) / 2 : clamp(cursor, from, to);
      zoom(at - (at - from) * factor, at + (to - at) * factor);
    }

    // The time and the row at a place on the screen.
    under(event) {
      const box = this.drawing().area.getBoundingClientRect(), [from, to] = this.span(), rows = this.data.names?.length ?? 1;
      this.row = clamp(Math.floor((event.clientY - box.top) / box.height * rows), 0, rows - 1);
      return from + clamp((event.clientX - box.left) / box.width, 0, 1) * (to - from);
    }

    listen() {
      const {figure, data} = this;
      let brush = null;
      const place = (time) => {
        const {x, width} = this.drawing(), [from, to] = this.span();
        return x + (time - from) / (to - from) * width;
      };
      const stop = () => {
        this.mark(this.brush, null);
        brush = null;
      };
      for (const {area} of this.drawings) {
        area.addEventListener('pointerdown', (event) => {
          if (event.button !== 0 || event.pointerType === 'touch') return;
          area.setPointerCapture(event.pointerId);
          brush = this.under(event);
        });
        area.addEventListener('pointermove', (event) => {
          move(this.under(event));
          if (brush == null) return;
          const [from, to] = [brush, cursor].map(place).sort((a, b) => a - b);
          this.mark(this.brush, from, to - from);
        });
        area.addEventListener('pointerup', () => {
          const [from, to] = brush == null ? [0, 0] : [brush, cursor].sort((a, b) => a - b);
          stop();
          // A click is no brush.
          if (place(to) - place(from) > 4) zoom(from, to);
        });
        area.addEventListener('pointercancel', stop);
        area.addEventListener('pointerleave', () => { if (brush == null) move(null); });
        area.addEventListener('dblclick', () => zoom(0, Infinity));
      }
      figure.addEventListener('keydown', (event) => {
        if (event.target !== figure || event.ctrlKey || event.altKey || event.metaKey) return;
        const {times} = this, [from, to] = this.span(), rows = data.names?.length ?? 1, by = event.shiftKey ? 10 : 1;
        const [low, high] = [first(times, from), Math.max(0, first(times, to * 1.000001) - 1)];
        // From one point of the data to the next.
        const step = (by) => times[clamp(cursor == null ? (by > 0 ? low : high) : nearest(times, cursor) + by, low, high)];
        switch (event.key) {
          case 'ArrowLeft': move(step(-by)); break;
          case 'ArrowRight': move(step(by)); break;
          case 'ArrowUp': this.row = Math.max(0, this.row - 1); move(cursor ?? step(1)); break;
          case 'ArrowDown': this.row = Math.min(rows - 1, this.row + 1); move(cursor ?? step(1)); break;
          case 'Home': move(times[low]); break;
          case 'End': move(times[high]); break;
          case '+': case '=': this.around(0.5); break;
          case '-': this.around(2); break;
          case 'Escape': zoom(0, Infinity); break;
          default: return;
        }
        event.preventDefault();
        this.status.textContent = this.point();
      });
    }
  }

  // Charts that are not on the screen follow when they come into view.
  const all = () => charts.forEach((chart) => { chart.draw(); chart.point(); });
  const zoom = (from, to) => { shown = [from, to]; all(); };
  const move = (time) => { cursor = time; charts.forEach((chart) => chart.point()); };
  const watched = new IntersectionObserver((entries) => {
    for (const {target, isIntersecting} of entries) {
      const chart = charts.find(({figure}) => figure === target);
      chart.seen = isIntersecting;
      chart.draw();
    }
  });
  for (const figure of document.querySelectorAll('figure.time, figure.map')) {
    const data = JSON.parse(figure.querySelector('script').textContent);
    if (data.kind === 'lines' && data.times.length === 0) continue;
    figure.setAttribute('aria-description', 'Arrow keys move the cursor and read the values, plus and minus zoom, Escape shows the whole time.');
    figure.classList.add('drawn');
    const chart = new Chart(figure, data);
    chart.listen();
    charts.push(chart);
    watched.observe(figure);
  }
  addEventListener('resize', () => { charts.forEach((chart) => { chart.visible = null; }); all(); });
})();

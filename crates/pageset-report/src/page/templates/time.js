// Charts over time, drawn with uPlot: values at the cursor, zoom by brushing, keys. All charts share the axis of time and
// the cursor. Without this script the page shows each chart as a drawing.
'use strict';
(() => {
  const HEIGHT = 270, LEFT = 74;
  const plots = [];
  let colours = {};
  const read = () => {
    const style = getComputedStyle(document.documentElement);
    const names = ['ink', 'soft', 'faint', 'panel', ...Array.from('01234567', (i) => 'c' + i), ...Array.from('012345678', (i) => 'l' + i)];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue('--' + name).trim()]));
  };
  read();

  const element = (tag, parent, properties = {}) => {
    const made = Object.assign(document.createElement(tag), properties);
    parent.append(made);
    return made;
  };

  // A number as in the tables.
  const plain = (value) => {
    const size = Math.abs(value);
    if (Math.abs(value - Math.round(value)) < 1e-9 || size >= 1000) {
      return Math.round(value).toLocaleString('en-US');
    }
    return size < 0.1 ? String(Number(value.toPrecision(2))) : value.toFixed(size < 10 ? 2 : 1);
  };
  const seconds = (value, span) => `${value.toFixed(span < 1 ? 4 : span < 100 ? 3 : 1)} s`;

  // The top of a linear scale, as in the drawings.
  const top = (most) => {
    if (!(most > 0)) return 1;
    const raw = most / 4, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= raw);
    return Math.ceil(most / step) * step;
  };

  // Zooms all charts to the same span of time. Charts that are not on the screen follow when they come into view.
  let zooming = false;
  const follow = (one) => {
    if (one.span == null || !one.seen) return;
    const [min, max] = one.span;
    one.span = null;
    if (one.plot.scales.x.min === min && one.plot.scales.x.max === max) return;
    zooming = true;
    one.plot.setScale('x', {min, max});
    zooming = false;
  };
  const zoom = (min, max) => {
    if (zooming) return;
    for (const one of plots) {
      one.span = [Math.max(0, min), Math.min(one.whole, max)];
      one.tools.whole.disabled = one.span[0] <= 0 && one.span[1] >= one.whole;
      follow(one);
    }
  };
  const watched = new IntersectionObserver((entries) => {
    for (const {target, isIntersecting} of entries) {
      const one = plots.find(({figure}) => figure === target);
      if (!one) continue;
      one.seen = isIntersecting;
      follow(one);
    }
  });
  const around = (plot, factor) => {
    const {min, max} = plot.scales.x, left = plot.cursor.left;
    const at = left >= 0 ? plot.posToVal(left, 'x') : (min + max) / 2;
    zoom(at - (at - min) * factor, at + (max - at) * factor);
  };

  const axis = {
    stroke: () => colours.soft, grid: {stroke: () => colours.faint, width: 1}, ticks: {show: false},
    font: '12px system-ui, sans-serif',
  };
  const wide = (texts) => Math.max(...texts.map((text) => String(text).length)) * 7.2 + 14;
  const brush = (data) => ({
    cursor: {
      y: data.kind === 'heat', points: {size: 7}, drag: {x: true, y: false, setScale: true},
      sync: {key: 'time', setSeries: false, filters: {sub: (type) => type === 'mousemove' || type === 'mouseleave', pub: () => true}},
      // A double click shows the whole time.
      bind: {dblclick: () => () => { zoom(0, Infinity); return null; }},
    },
    legend: {show: false}, padding: [8, 26, 0, 0],
  });
  const timeAxis = {...axis, space: 70, size: 38, gap: 12, values: (_, ticks) => ticks.map((tick) => `${plain(tick)} s`)};

  // The powers of ten of a logarithmic scale.
  const decades = (plot) => {
    const {min, max} = plot.scales.y, all = [];
    for (let power = Math.floor(Math.log10(min)); 10 ** power <= max * 1.001; power += 1) all.push(10 ** power);
    return all;
  };

  function lines(figure, data) {
    const most = Math.max(0, ...data.series.flatMap((line) => line.values.map((value) => value ?? 0)));
    const isDense = data.times.length >= 2000;
    const list = element('ul', figure, {className: 'series'});
    const entries = [];
    data.series.forEach((line, i) => {
      if (line.dashed) {
        entries[entries.length - 1].bound = i + 1;
        return;
      }
      const button = element('button', element('li', list), {type: 'button'});
      button.setAttribute('aria-pressed', 'true');
      element('i', button).style.background = `var(--c${line.colour})`;
      element('span', button, {textContent: line.name});
      const entry = {line: i + 1, button, value: element('span', button, {className: 'value'})};
      entries.push(entry);
      button.addEventListener('click', () => {
        const show = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(show));
        plots.find((one) => one.figure === figure).plot.setSeries(entry.line, {show});
        if (entry.bound) plots.find((one) => one.figure === figure).plot.setSeries(entry.bound, {show});
      });
    });
    // The last known value at or before a place: series have points of their own.
    const before = (values, place) => {
      while (place >= 0 && values[place] == null) place -= 1;
      return place < 0 ? null : values[place];
    };
    const at = (plot) => {
      const place = plot.cursor.idx;
      const texts = entries.map((entry) => {
        const [value, bound] = [entry.line, entry.bound].map((i) => i && place != null ? before(plot.data[i], place) : null);
        const text = value == null ? '' : plain(value) + (bound == null ? '' : ` of ${plain(bound)}`);
        if (entry.value.textContent !== text) entry.value.textContent = text;
        return value == null ? null : `${data.series[entry.line - 1].name} ${text}`;
      });
      return place == null ? null : {time: plot.data[0][place], text: texts.filter(Boolean).join(', ')};
    };
    const options = {
      ...brush(data),
      scales: {
        x: {time: false, range: (_, min, max) => [min, max]},
        y: data.log ? {distr: 3} : {range: () => [0, top(most)]},
      },
      axes: [timeAxis, {...axis, size: (_, texts) => Math.max(LEFT, texts ? wide(texts) : 0), values: (_, ticks) => ticks.map((tick) => tick == null ? '' : plain(tick)), ...(data.log ? {splits: decades} : {})}],
      series: [{}, ...data.series.map((line) => ({
        stroke: () => colours[`c${line.colour}`],
        // Between thousands of points, dashes and wide lines take longer than a frame to draw.
        width: line.dashed || isDense ? 1 : 1.6,
        dash: line.dashed && !isDense ? [5, 4] : undefined,
        alpha: line.dashed && isDense ? 0.5 : 1,
        spanGaps: true, points: {show: data.times.length < 40, size: 5},
      }))],
    };
    return {options, values: [data.times, ...data.series.map((line) => line.values)], at, height: HEIGHT};
  }

  function heat(figure, data) {
    const rows = data.names.length, columns = data.values[0].length;
    const key = element('ul', figure, {className: 'key'});
    data.steps.forEach((text, level) => {
      const entry = element('li', key);
      element('i', entry).style.background = `var(--l${level})`;
      entry.append(text);
    });
    const height = Math.min(Math.max(rows * 22, 60), 420) + 44;
    const draw = (plot) => {
      const {left, top, width, height} = plot.bbox, context = plot.ctx;
      context.save();
      context.beginPath();
      context.rect(left, top, width, height);
      context.clip();
      const x = (column) => Math.round(plot.valToPos(column * data.step, 'x', true));
      const y = (row) => Math.round(plot.valToPos(row, 'y', true));
      const from = Math.max(0, Math.floor(plot.scales.x.min / data.step));
      const to = Math.min(columns, Math.ceil(plot.scales.x.max / data.step));
      for (let row = 0; row < rows; row += 1) {
        const [low, high] = [y(row), y(row + 1)], levels = data.levels[row];
        for (let begin = from, end; begin < to; begin = end) {
          for (end = begin + 1; end < to && levels[end] === levels[begin]; end += 1);
          if (levels[begin] !== '-') {
            context.fillStyle = colours[`l${levels[begin]}`];
            const edge = x(begin);
            context.fillRect(edge, Math.min(low, high), x(end) - edge, Math.max(1, Math.abs(high - low)));
          }
        }
      }
      context.restore();
    };
    const at = (plot) => {
      const {left, top} = plot.cursor;
      if (left == null || left < 0) return null;
      const column = Math.min(columns - 1, Math.max(0, Math.floor(plot.posToVal(left, 'x') / data.step)));
      const row = Math.min(rows - 1, Math.max(0, Math.floor(plot.posToVal(top, 'y'))));
      const value = data.values[row][column];
      return {time: column * data.step, text: value == null ? '' : `${data.names[row]} ${plain(value)} ${data.unit}`};
    };
    const options = {
      ...brush(data),
      scales: {x: {time: false, range: (_, min, max) => [min, max]}, y: {dir: -1, range: () => [0, rows]}},
      axes: [
        {...timeAxis, grid: {show: false}},
        {
          ...axis, grid: {show: false}, size: Math.max(LEFT, wide(data.names)),
          splits: () => {
            const every = Math.max(1, Math.ceil(rows * 15 / (height - 44)));
            return data.names.map((_, i) => i + 0.5).filter((_, i) => i % every === 0);
          },
          values: (_, ticks) => ticks.map((tick) => data.names[Math.floor(tick)]),
        },
      ],
      series: [{}, {paths: () => null, points: {show: false}}],
      hooks: {draw: [draw]},
    };
    const times = Array.from({length: columns}, (_, i) => (i + 0.5) * data.step);
    return {options, values: [times, times.map(() => 0)], at, height, rows};
  }

  for (const figure of document.querySelectorAll('figure.time, figure.map')) {
    const data = JSON.parse(figure.querySelector('script').textContent);
    if (data.kind === 'lines' && data.times.length === 0) continue;
    const tools = element('div', figure, {className: 'tools'});
    const button = (text, label, run) => {
      const made = element('button', tools, {type: 'button', textContent: text});
      made.setAttribute('aria-label', label);
      made.addEventListener('click', run);
      return made;
    };
    element('span', tools, {textContent: data.unit + (data.log ? ', logarithmic scale' : '')});
    const one = {figure, whole: data.seconds, tools: {}, span: null, seen: true};
    button('+', 'Zoom in', () => around(one.plot, 0.5));
    button('−', 'Zoom out', () => around(one.plot, 2));
    one.tools.whole = button('Whole time', 'Show the whole time', () => zoom(0, Infinity));
    one.tools.whole.disabled = true;
    const shown = element('span', tools, {className: 'at'});
    const status = element('span', figure, {className: 'skip'});
    status.setAttribute('role', 'status');
    const holder = element('div', figure, {className: 'plot'});
    const made = (data.kind === 'heat' ? heat : lines)(figure, data);
    figure.setAttribute('aria-description', 'Arrow keys move the cursor and read the values, plus and minus zoom, Escape shows the whole time.');
    const width = () => Math.max(200, Math.floor(figure.getBoundingClientRect().width));
    const text = (plot) => {
      const at = made.at(plot);
      return at && `${seconds(at.time, plot.scales.x.max - plot.scales.x.min)}: ${at.text}`;
    };
    const hooks = {
      ...made.options.hooks,
      setCursor: [(plot) => {
        const at = made.at(plot);
        // Values of lines are next to their names.
        const said = at == null ? '' : data.kind === 'heat' ? text(plot) : seconds(at.time, plot.scales.x.max - plot.scales.x.min);
        if (shown.textContent !== said) shown.textContent = said;
      }],
      setScale: [(plot, key) => { if (key === 'x' && one.plot) zoom(plot.scales.x.min, plot.scales.x.max); }],
    };
    figure.classList.add('drawn');
    const plot = new uPlot({...made.options, hooks, width: width(), height: made.height}, made.values, holder);
    one.plot = plot;
    plots.push(one);
    plot.setScale('x', {min: 0, max: data.seconds});
    watched.observe(figure);
    new ResizeObserver(() => {
      if (plot.width !== width()) plot.setSize({width: width(), height: made.height});
    }).observe(figure);
    figure.addEventListener('keydown', (event) => {
      if (event.target !== figure || event.ctrlKey || event.altKey || event.metaKey) return;
      const {over, scales} = plot, [w, h] = [over.clientWidth, over.clientHeight];
      let {left, top} = plot.cursor;
      const began = left == null || left < 0;
      const step = event.shiftKey ? 10 : 1;
      const x = (value) => plot.valToPos(value, 'x');
      // From one point of the data to the next.
      const move = (by) => {
        const times = plot.data[0], place = began ? (by > 0 ? -1 : times.length) : plot.posToIdx(left);
        return x(times[Math.min(times.length - 1, Math.max(0, place + by))]);
      };
      if (began) top = h / 2 / (made.rows ?? 1);
      switch (event.key) {
        case 'ArrowLeft': left = move(-step); break;
        case 'ArrowRight': left = move(step); break;
        case 'ArrowUp': top = Math.max(1, top - h / (made.rows ?? 10)); break;
        case 'ArrowDown': top = Math.min(h - 1, top + h / (made.rows ?? 10)); break;
        case 'Home': left = 0; break;
        case 'End': left = w; break;
        case '+': case '=': around(plot, 0.5); break;
        case '-': around(plot, 2); break;
        case 'Escape': zoom(0, Infinity); break;
        default: return;
      }
      event.preventDefault();
      if (left == null || left < 0) left = w / 2;
      plot.setCursor({left: Math.min(w, Math.max(0, left)), top});
      status.textContent = text(plot) ?? '';
    });
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    read();
    plots.forEach(({plot}) => plot.redraw());
  });
})();

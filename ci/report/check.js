// Looks at reports in a browser: node check.js CHROMIUM PAGE...
//
// In light, dark and on a phone: nothing on the console, no request, no violation that axe-core finds. Values read back
// by pointing and by keys are those of the data. Brushing zooms all charts over time. Without scripts and on paper each
// chart is a drawing.
'use strict';
const assert = require('node:assert/strict');
const axe = require('axe-core').source;
const {WAYS, browser, open} = require('./browser.js');

const plain = (text) => Number(text.replaceAll(',', ''));

// Each bar says its value when it is pointed at, and the keys read the same values in order.
async function bars(page) {
  let read = 0;
  for (const figure of await page.locator('figure.bars').all()) {
    await figure.scrollIntoViewIfNeeded();
    const rows = await figure.locator('xpath=..').locator('tbody tr').evaluateAll(
      (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    await figure.focus();
    const marks = await figure.locator('svg.chart:visible .mark').count();
    for (let i = 0; i < marks; i += 1) {
      await page.keyboard.press('ArrowDown');
      const said = await figure.locator('.tip').textContent();
      // A bar has one value of its row, a dot has both.
      const bar = (row) => said.startsWith(`${row[0]}, `) && row.slice(1).some((cell) => said.includes(`: ${cell}`));
      const dot = (row) => said.startsWith(`${row[0]}: `) && row.slice(1).every((cell) => cell.endsWith('×') || said.includes(` ${cell} `));
      const row = rows.find((row) => bar(row) || dot(row));
      assert.ok(row, `no row of the table says: ${said}; ${JSON.stringify(rows)}`);
      read += 1;
    }
    await page.keyboard.press('Escape');
    assert.equal(await figure.locator('.tip').textContent(), '');
    const box = await figure.locator('svg.chart:visible .mark').last().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    assert.match(await figure.locator('.tip').textContent(), /: [\d.,<-]/);
    await page.mouse.move(1, 1);
  }
  return read;
}

// The values at the cursor are those of the data.
async function times(page) {
  let read = 0;
  for (const figure of await page.locator('figure.time, figure.map').all()) {
    const data = JSON.parse(await figure.locator('script').textContent());
    await figure.scrollIntoViewIfNeeded();
    const over = figure.locator('.area:visible'), box = await over.boundingBox();
    for (const share of [0.1, 0.37, 0.5, 0.83]) {
      await page.mouse.move(box.x + box.width * share, box.y + box.height * share, {steps: 3});
      const said = await figure.locator('.tools .at').textContent();
      assert.match(said, /^[\d.]+ s/, `nothing is read at ${share} of a chart`);
      const seconds = plain(said.split(' s')[0]);
      assert.ok(Math.abs(seconds - data.seconds * share) <= data.seconds / 8 + 0.001, `${said} at ${share}`);
      if (data.kind === 'heat') {
        // The cursor may be a pixel off, and so in the next row.
        const wanted = share * data.names.length, row = data.names.findIndex((name) => said.includes(`: ${name} `));
        assert.ok(row >= 0 && Math.abs(row + 0.5 - wanted) < 1.5, `${said}: not row ${wanted}`);
        const column = Math.round(seconds / data.step), value = data.values[row][column];
        if (value == null) continue;
        const number = plain(said.split(`${data.names[row]} `)[1].split(data.unit)[0]);
        assert.ok(Math.abs(number - value) <= Math.abs(value) * 0.01 + 0.05, `${said}: not ${value}`);
      } else {
        const place = data.times.reduce((best, time, i) => Math.abs(time - seconds) < Math.abs(data.times[best] - seconds) ? i : best, 0);
        const line = data.series[0];
        let at = place;
        while (at >= 0 && line.values[at] == null) at -= 1;
        if (at < 0) continue;
        const number = plain((await figure.locator('.series .value').first().textContent()).split(' of ')[0]);
        assert.ok(Math.abs(number - line.values[at]) <= Math.abs(line.values[at]) * 0.01 + 0.05, `${line.name} at ${said}: ${number}, not ${line.values[at]}`);
      }
      read += 1;
    }
    await page.mouse.move(1, 1);
    // The keys read values too.
    await figure.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    const status = await figure.locator('[role=status]').textContent();
    assert.match(status, /^[\d.]+ s: /, 'the keys read no value');
  }
  return read;
}

// Brushing over one chart zooms all charts over time; Escape shows the whole time.
async function brushing(page) {
  const figures = page.locator('figure.time, figure.map');
  if (await figures.count() === 0) return;
  const off = () => page.locator('.tools button[aria-label="Show the whole time"]:disabled').count();
  assert.equal(await off(), await figures.count());
  const first = figures.first();
  await first.scrollIntoViewIfNeeded();
  const box = await first.locator('.area:visible').boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20, {steps: 5});
  await page.mouse.up();
  await page.waitForTimeout(50);
  assert.equal(await off(), 0, 'brushing did not zoom all charts');
  // The middle of the chart is now near three eighths of the time.
  const data = JSON.parse(await first.locator('script').textContent());
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20);
  const seconds = plain((await first.locator('.tools .at').textContent()).split(' s')[0]);
  assert.ok(Math.abs(seconds / data.seconds - 0.375) < 0.15, `${seconds} of ${data.seconds} after brushing`);
  await first.focus();
  await page.keyboard.press('Escape');
  await page.waitForTimeout(50);
  assert.equal(await off(), await figures.count(), 'Escape did not show the whole time');
}

async function accessible(page, name) {
  // Into the page's own world: its policy allows no other script.
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, {resultTypes: ['violations']}));
  const said = found.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
  assert.deepEqual(said, [], name);
  return found.passes.length;
}

// Each chart is a drawing.
async function drawings(page, name) {
  for (const figure of await page.locator('figure').all()) {
    assert.equal(await figure.locator('svg.chart:visible').count(), 1, `${name}: a chart is not shown`);
  }
}

async function check(instance, file) {
  const name = file.split('/').pop();
  const counts = {};
  for (const [way, options] of Object.entries(WAYS)) {
    const {page, faults, close} = await open(instance, file, options);
    counts.rules = await accessible(page, `${name}, ${way}`);
    counts.bars = await bars(page);
    counts.times = await times(page);
    if (way !== 'phone') await brushing(page);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${name}, ${way}: the page is ${over} pixels too wide`);
    await page.emulateMedia({media: 'print'});
    await drawings(page, `${name}, print`);
    assert.deepEqual(faults, [], `${name}, ${way}`);
    await close();
  }
  const still = await open(instance, file, {...WAYS.light, javaScriptEnabled: false});
  await drawings(still.page, `${name} without scripts`);
  assert.deepEqual(still.faults, [], `${name} without scripts`);
  await still.close();
  console.log(`report: ${name}: ${counts.bars} bars and ${counts.times} points read back, ${counts.rules} rules of axe-core hold, no console message, no request`);
}

(async () => {
  const [executable, ...files] = process.argv.slice(2);
  const instance = await browser(executable);
  try {
    for (const file of files) await check(instance, file);
  } finally {
    await instance.close();
  }
})().catch((error) => { console.error(`report: ${error.message}`); process.exit(1); });

// Pictures of reports: node pictures.js CHROMIUM FOLDER REPLAY LOOKS
'use strict';
const {WAYS, browser, open} = require('./browser.js');

const PRINT = {viewport: {width: 794, height: 1123}, colorScheme: 'light'}; // A4 at 96 dots per inch.

(async () => {
  const [executable, folder, replay, looks] = process.argv.slice(2);
  const instance = await browser(executable);
  // The name, the page, the way, and the height of the picture.
  for (const [name, file, options, height] of [
    ['report-light', replay, WAYS.light, 1130],
    ['report-dark', looks, WAYS.dark, 1000],
    ['report-phone', replay, {...WAYS.phone, deviceScaleFactor: 1}, 1700],
    ['report-print', replay, PRINT, 1123],
  ]) {
    const {page, faults, close} = await open(instance, file, options);
    if (name === 'report-print') await page.emulateMedia({media: 'print'});
    if (name === 'report-dark') {
      // A value under the cursor.
      const box = await page.locator('figure.time .area:visible').first().boundingBox();
      await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.5);
      await page.waitForTimeout(100);
    }
    await page.screenshot({path: `${folder}/${name}.png`, clip: {x: 0, y: 0, width: options.viewport.width, height}, fullPage: true});
    if (faults.length > 0) throw new Error(faults.join('; '));
    await close();
  }
  await instance.close();
})().catch((error) => { console.error(`pictures: ${error.message}`); process.exit(1); });

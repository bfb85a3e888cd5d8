// A browser, and pages in it whose errors and requests are noted.
'use strict';
const {chromium} = require('playwright-core');

const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

// Each way to see a page.
const WAYS = {
  light: {viewport: {width: 1440, height: 900}, colorScheme: 'light'},
  dark: {viewport: {width: 1440, height: 900}, colorScheme: 'dark'},
  phone: {viewport: {width: 390, height: 844}, colorScheme: 'light', deviceScaleFactor: 2, isMobile: true, hasTouch: true},
};

async function browser(executablePath) {
  return chromium.launch({executablePath, headless: true, args: FLAGS});
}

// Opens a file. `faults` collects messages of the console, uncaught errors, and requests of anything but the page itself.
async function open(browser, file, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const faults = [], address = `file://${file}`;
  page.on('console', (message) => faults.push(`console: ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('request', (request) => {
    if (request.url() !== address && !request.url().startsWith('data:')) faults.push(`request: ${request.url()}`);
  });
  await page.goto(address);
  return {page, faults, close: () => context.close()};
}

module.exports = {WAYS, browser, open};

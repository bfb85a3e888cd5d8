// Writes looks as `pageset top --json` prints them, of a machine that does not exist: node looks.js LOOKS CPUS
'use strict';
const [looks, cpus] = process.argv.slice(2).map(Number);
// A linear congruential generator: the same looks each time.
let state = 1;
const random = () => { state = (state * 1103515245 + 12345) % 2147483648; return state / 2147483648; };
const path = (pct) => ({times: 1, ns: 1, per_s: 1, pct});
const count = new Array(cpus).fill(200);
for (let i = 0; i < looks; i += 1) {
  const pagesets = [], traffic = [];
  for (let cpu = 0; cpu < cpus; cpu += 1) {
    const busy = 0.5 + 0.5 * Math.sin(i / looks * 12 + cpu * 6 / cpus);
    count[cpu] = Math.max(0, Math.min(900, count[cpu] + (random() - 0.5) * 200 * busy));
    pagesets.push({cpu, count: Math.round(count[cpu]), high: 900 + Math.round(100 * busy), batch: 63});
    const waits = {refill: path(3 * busy * busy * random()), drain: path(busy * random()), direct_alloc: path(0), direct_free: path(0)};
    const since = {refill_pages: 0, drain_pages: 0, high_order_drains: 0, fallbacks: 0};
    traffic.push({cpu, ...since, refill_pages_per_s: Math.round(9000 * busy * random()), drain_pages_per_s: Math.round(8000 * busy * random()), zone_lock_waits: i === 0 ? null : waits});
  }
  const held = pagesets.reduce((sum, set) => sum + set.count, 0);
  process.stdout.write(`${JSON.stringify({
    schema: 'pageset.top/1', source: 'live', time_ns: 1700000000000000000 + i * 1000000000, elapsed_ns: i === 0 ? null : 1000000000,
    kernel: {release: '6.18.0', rules: 'linux-6.18', auto_tuning: 'on', known: true, is_another: false},
    zones: [{
      node: 0, zone: 'Normal', managed: 8388608, free: 4000000, min: 15000, low: 19000, high: 23000, batch: 63,
      held, held_change: 0, held_pct: 100 * held / 8388608, pagesets,
    }],
    traffic, cpu_nodes: [], vmstat: [], news: [], missing: [],
  })}\n`);
}

// Perfetto's trace processor reads a timeline, and is asked whether it has what the table has.
//
// node read.js ENGINE TIMELINE replay|run TABLE

const fs = require('fs');
const {ask} = require('./engine.js');

const [engine, timeline, kind, table] = process.argv.slice(2);
const json = JSON.parse(fs.readFileSync(table, 'utf8'));

const LOST = `select name, value from stats where severity in ('data_loss', 'error') and value > 0`;
const SLICES = `
    select process.name as process, slice.name as slice, extract_arg(slice.arg_set_id, 'args.path') as path,
        count(*) as count, sum(extract_arg(slice.arg_set_id, 'args.pages')) as pages, sum(slice.dur) as ns
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
    group by 1, 2, 3`;
const COUNTERS = `select count(*) as count from counter`;

function check(what, wanted, got) {
    if (JSON.stringify(wanted) !== JSON.stringify(got)) {
        console.error(`perfetto: ${what}: the table has ${JSON.stringify(wanted)}, Perfetto ${JSON.stringify(got)}`);
        process.exit(1);
    }
}

ask(engine, timeline, [LOST, SLICES, COUNTERS]).then(([lost, slices, counters]) => {
    check('lost', [], lost);
    const of = (process, slice, path = null) => slices.find((row) =>
        row.process === process && row.slice === slice && row.path === path) ?? {count: 0, pages: 0, ns: 0};
    if (kind === 'replay') {
        const rows = [['kernel, as recorded', json.kernel]];
        json.rules.forEach((row) => rows.push([`${row.name}, ${row.level}`, row]));
        for (const [process, row] of rows) {
            for (const what of ['refill', 'drain']) {
                const {count, pages} = of(process, what);
                check(`${what}s of ${process}`, [row[`${what}s`], row[`${what}_pages`]], [count, pages]);
            }
        }
        check('counters', true, counters[0].count > 0);
    } else {
        const row = json.rows[0], sample = row.samples[0];
        const process = `${row.rules}, ${row.tasks} tasks, seed ${sample.seed}`;
        for (const [slice, path, locks, way] of [['zone lock', 'fill', 'zone_locks', 'alloc'], ['zone lock', 'drain', 'zone_locks', 'free'],
            ['LRU lock', 'add', 'lru_locks', 'alloc'], ['LRU lock', 'remove', 'lru_locks', 'free']]) {
            const counted = sample[locks][way], {count, ns} = of(process, slice, path);
            // The measurement's ends cut one hold a CPU at most.
            check(`holds of the ${slice}, ${path}`, true, count > 100 && Math.abs(count - counted.holds) <= row.tasks);
            check(`ns of the ${slice}, ${path}`, true, Math.abs(ns / counted.hold_ns - 1) < 0.02);
        }
    }
    const all = slices.reduce((sum, row) => sum + row.count, 0);
    console.log(`perfetto: ${all} slices of ${kind}, none lost, as in the table`);
    process.exit(0);
}).catch((error) => { console.error(`perfetto: ${error.message}`); process.exit(1); });

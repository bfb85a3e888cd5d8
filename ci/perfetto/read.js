// Perfetto's trace processor reads a timeline, and is asked whether it has what the table has.
//
// node read.js ENGINE TIMELINE TABLE

const fs = require('fs');
const {ask} = require('./engine.js');

const [engine, timeline, table] = process.argv.slice(2);
const json = JSON.parse(fs.readFileSync(table, 'utf8'));

const LOST = `select name, value from stats where severity in ('data_loss', 'error') and value > 0`;
const SLICES = `
    select process.name as process, slice.name as slice, count(*) as count,
        sum(extract_arg(slice.arg_set_id, 'args.pages')) as pages
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
    group by 1, 2`;
const COUNTERS = `select count(*) as count from counter`;

function check(what, wanted, got) {
    if (JSON.stringify(wanted) !== JSON.stringify(got)) {
        console.error(`perfetto: ${what}: the table has ${JSON.stringify(wanted)}, Perfetto ${JSON.stringify(got)}`);
        process.exit(1);
    }
}

ask(engine, timeline, [LOST, SLICES, COUNTERS]).then(([lost, slices, counters]) => {
    check('lost', [], lost);
    const of = (process, slice) => slices.find((row) =>
        row.process === process && row.slice === slice) ?? {count: 0, pages: 0};
    const rows = [['kernel, as recorded', json.kernel]];
    json.rules.forEach((row) => rows.push([`${row.name}, ${row.level}`, row]));
    for (const [process, row] of rows) {
        for (const what of ['refill', 'drain']) {
            const {count, pages} = of(process, what);
            check(`${what}s of ${process}`, [row[`${what}s`], row[`${what}_pages`]], [count, pages]);
        }
    }
    check('counters', true, counters[0].count > 0);
    const all = slices.reduce((sum, row) => sum + row.count, 0);
    console.log(`perfetto: ${all} slices, none lost, as in the table`);
    process.exit(0);
}).catch((error) => { console.error(`perfetto: ${error.message}`); process.exit(1); });

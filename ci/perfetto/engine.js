// Perfetto's trace processor outside its viewer: a worker's script that speaks protocol buffers through a port.
//
// Numbers of fields and methods are those of Perfetto's trace_processor.proto.

const fs = require('fs');
const path = require('path');

const METHOD = {APPEND: 1, FINALIZE: 2, QUERY: 3};
const FIELD = {RPC: 1, SEQ: 1, REQUEST: 2, FATAL: 5, DATA: 101, QUERY_ARGS: 103, QUERY_RESULT: 203};
const CHUNK_BYTES = 16 << 20;

function varint(number) {
    const bytes = [];
    for (; number > 127; number = Math.floor(number / 128)) bytes.push((number & 127) | 128);
    return [...bytes, number];
}

const bytes = (id, content) => Buffer.concat([Buffer.from([...varint(id * 8 + 2), ...varint(content.length)]), content]);
const number = (id, value) => Buffer.from([...varint(id * 8), ...varint(value)]);

// The numbers of a buffer, from a place on.
function reader(buffer) {
    let at = 0;
    const next = () => {
        for (let value = 0n, shift = 0n; ; shift += 7n) {
            const byte = buffer[at++];
            value |= BigInt(byte & 127) << shift;
            if (byte < 128) return value;
        }
    };
    return {more: () => at < buffer.length, next, take: (length) => buffer.subarray(at, (at += length))};
}

function* fields(buffer) {
    const from = reader(buffer);
    while (from.more()) {
        const tag = Number(from.next());
        const lengths = {1: () => 8, 2: () => Number(from.next()), 5: () => 4};
        const kind = tag & 7;
        yield [tag >> 3, kind === 0 ? from.next() : from.take(lengths[kind]())];
    }
}

function* packed(buffer) {
    const from = reader(buffer);
    while (from.more()) yield BigInt.asIntN(64, from.next());
}

// One batch of cells: their kinds, and the values of each kind. Returns whether it is the last.
function cells(batch, into) {
    const kinds = [], integers = [], floats = [];
    let strings = [], last = false;
    for (const [id, value] of fields(batch)) {
        if (id === 1) kinds.push(...packed(value));
        else if (id === 2) integers.push(...packed(value));
        else if (id === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
        else if (id === 5) strings = value.toString().split('\0');
        else if (id === 6) last = value !== 0n;
    }
    const values = {1: () => null, 2: () => Number(integers.shift()), 3: () => floats.shift(), 4: () => strings.shift()};
    into.push(...kinds.map((kind) => values[kind]()));
    return last;
}

// The script believes that it runs in a browser's worker.
function start(engine) {
    const file = (name) => fs.readFileSync(path.join(path.dirname(engine), path.basename(name)));
    globalThis.self = globalThis;
    globalThis.WorkerGlobalScope = class {};
    globalThis.location = {href: 'http://localhost/'};
    globalThis.XMLHttpRequest = class {
        open(method, name) { this.name = name; }
        send() { this.response = Uint8Array.from(file(this.name)).buffer; }
    };
    globalThis.fetch = async (name) => new Response(file(`${name}`), {headers: {'Content-Type': 'application/wasm'}});
    Object.defineProperty(process, 'type', {value: 'renderer'});
    // What it says of its own start.
    console.warn = () => {};
    (0, eval)(file(engine).toString());
    const {port1, port2} = new MessageChannel();
    self.onmessage({data: port1});
    return port2;
}

// Answers of queries about a trace, each a list of rows.
exports.ask = (engine, trace, queries) => new Promise((resolve, reject) => {
    const port = start(engine);
    const answers = [];
    let names = [], values = [];
    port.onmessage = ({data}) => {
        for (const [, rpc] of fields(Buffer.from(data))) for (const [id, result] of fields(rpc)) {
            if (id === FIELD.FATAL) reject(new Error(result.toString()));
            if (id !== FIELD.QUERY_RESULT) continue;
            for (const [part, content] of fields(result)) {
                if (part === 1) names.push(content.toString());
                if (part === 2 && content.length) reject(new Error(content.toString()));
                if (part !== 3 || !cells(content, values)) continue;
                const width = names.length;
                answers.push(Array.from({length: values.length / width}, (_, row) =>
                    Object.fromEntries(names.map((name, column) => [name, values[row * width + column]]))));
                [names, values] = [[], []];
                if (answers.length === queries.length) resolve(answers);
            }
        }
    };
    let seq = 0;
    const call = (method, ...more) => port.postMessage(new Uint8Array(
        bytes(FIELD.RPC, Buffer.concat([number(FIELD.SEQ, seq++), number(FIELD.REQUEST, method), ...more]))));
    // The module says nothing to its port when it is ready.
    setTimeout(() => {
        const data = fs.readFileSync(trace);
        for (let at = 0; at < data.length; at += CHUNK_BYTES) {
            call(METHOD.APPEND, bytes(FIELD.DATA, data.subarray(at, at + CHUNK_BYTES)));
        }
        call(METHOD.FINALIZE);
        queries.forEach((sql) => call(METHOD.QUERY, bytes(FIELD.QUERY_ARGS, bytes(1, Buffer.from(sql)))));
    }, 2000);
});

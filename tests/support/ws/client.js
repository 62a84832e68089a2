// client.js: any number of WebSocket clients, by npm's ws. A line of standard input is a command
// for one of them:
//
//   {"id", "do": "open", "url", "options": those of ws}
//   {"id", "do": "send" | "ping", "data", "options": {"mask", "fin", ...}}
//   {"id", "do": "close", "code", "reason"}
//   {"id", "do": "write", "bytes": base64}      sends these raw bytes, past ws
//
// A line of standard output reports what happened to one client:
//
//   {"id", "what": "open"}                                {"id", "what": "close", "code", "reason"}
//   {"id", "what": "message", "text", "binary"}           {"id", "what": "error", "text"}
//   {"id", "what": "ping" | "pong", "data"}
//   {"id", "what": "refused", "status", "body"}           an answer that is not a handshake
'use strict';

const readline = require('readline');
const WebSocket = require('ws');

const sockets = new Map();
process.stdout.on('error', () => process.exit(0)); // nobody reads the events any more

function say(id, what, more) {
  process.stdout.write(JSON.stringify({ id, what, ...more }) + '\n');
}

function open({ id, url, options }) {
  const socket = new WebSocket(url, { perMessageDeflate: false, ...options });
  sockets.set(id, socket);
  socket.on('open', () => say(id, 'open'));
  socket.on('message', (data, binary) => say(id, 'message', { text: data.toString(), binary }));
  socket.on('ping', (data) => say(id, 'ping', { data: data.toString() }));
  socket.on('pong', (data) => say(id, 'pong', { data: data.toString() }));
  socket.on('close', (code, reason) => say(id, 'close', { code, reason: reason.toString() }));
  socket.on('error', (e) => say(id, 'error', { text: e.message }));
  socket.on('unexpected-response', (request, response) => {
    let body = '';
    response.on('data', (part) => { body += part; });
    response.on('end', () => say(id, 'refused', { status: response.statusCode, body }));
  });
}

const commands = {
  open,
  send: ({ id, data, options }) => sockets.get(id).send(data, options || {}),
  ping: ({ id, data }) => sockets.get(id).ping(data),
  close: ({ id, code, reason }) => sockets.get(id).close(code, reason),
  write: ({ id, bytes }) => sockets.get(id)._socket.write(Buffer.from(bytes, 'base64')),
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const command = JSON.parse(line);
  commands[command.do](command);
}).on('close', () => process.exit(0));

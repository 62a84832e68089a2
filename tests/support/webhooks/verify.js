// verify.js: verifies deliveries of webhooks as a receiver does, with npm's standardwebhooks. It
// answers each line {"secret", "headers", "body": base64} with a line {"ok": true, "id": the id in
// the verified JSON} or {"ok": false, "why": the reason}.
'use strict';

const readline = require('readline');
const { Webhook } = require('standardwebhooks');

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { secret, headers, body } = JSON.parse(line);
  let answer;
  try {
    answer = { ok: true, id: new Webhook(secret).verify(Buffer.from(body, 'base64').toString(), headers).id };
  } catch (e) {
    answer = { ok: false, why: String(e.message) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
});

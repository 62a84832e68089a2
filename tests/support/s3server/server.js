// server.js: an S3 server for tests: s3rver 3.7.1 behind checks that a real object store makes and
// s3rver does not: signatures of version 4 (by npm's aws4, which is independent of libcurl) and the
// hash of the bytes.
//
// server.js reads each request whole, checks it, and passes it to s3rver once the request before is
// answered. So no request sees the result of another request half done: s3rver alone answers a PUT
// before the bytes are in the file.
'use strict';

const aws4 = require('aws4');
const { execFileSync } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const https = require('https');
const os = require('os');
const path = require('path');
const S3rver = require('s3rver');

const KEY = 'S3RVER'; // the only access key that s3rver knows
const SECRET = 'S3RVER/+secret';
const TOKEN = 'session/+token='; // the x-amz-security-token that a request may have
const BUCKETS = ['photos', 'other'];
const BODY_MAX = 64 << 20;
const SKEW_MS = 15 * 60 * 1000;
const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/,]+)\/(\d{8})\/([^/,]+)\/s3\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'photopool-s3-'));
process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(0));
process.stdin.on('end', () => process.exit(0)).on('error', () => process.exit(0)).resume();

// s3rver makes continuation tokens with DES, which OpenSSL 3 has only in its legacy provider; AES
// replaces it here.
for (const name of ['createCipheriv', 'createDecipheriv']) {
  const real = crypto[name];
  crypto[name] = (algorithm, key, iv) =>
    algorithm === 'des' ? real('aes-128-cbc', Buffer.concat([key, key]), Buffer.concat([iv, iv])) : real(algorithm, key, iv);
}

// Returns the error of a request as [status, code, message], or null if the request is correct.
function refusal(req, body) {
  const auth = AUTHORIZATION.exec(req.headers.authorization || '');
  if (!auth) return [403, 'AccessDenied', 'Access Denied'];
  const [, key, date, region, names, signature] = auth;
  if (key !== KEY) return [403, 'InvalidAccessKeyId', 'The AWS Access Key Id you provided does not exist in our records.'];
  const when = req.headers['x-amz-date'] || '';
  const at = Date.parse(when.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!(Math.abs(Date.now() - at) < SKEW_MS) || !when.startsWith(date))
    return [403, 'RequestTimeTooSkewed', 'The difference between the request time and the current time is too large.'];

  const signed = names.split(';');
  const must = Object.keys(req.headers).filter(h => h === 'host' || h === 'content-type' || h.startsWith('x-amz-'));
  const missing = must.find(h => !signed.includes(h));
  if (missing || signed.some(h => !(h in req.headers)))
    return [403, 'AccessDenied', `There were headers present in the request which were not signed: ${missing}`];
  const token = req.headers['x-amz-security-token'];
  if (token !== undefined && token !== TOKEN) return [400, 'InvalidToken', 'The provided token is malformed or otherwise invalid.'];

  const headers = Object.fromEntries(signed.map(h => [h, req.headers[h]]));
  const again = aws4.sign({ method: req.method, path: req.url, headers, service: 's3', region },
                          { accessKeyId: KEY, secretAccessKey: SECRET });
  if (!again.headers.Authorization.endsWith(`SignedHeaders=${names}, Signature=${signature}`))
    return [403, 'SignatureDoesNotMatch',
            'The request signature we calculated does not match the signature you provided. Check your key and signing method.'];
  if (req.headers['x-amz-content-sha256'] !== crypto.createHash('sha256').update(body).digest('hex'))
    return [400, 'XAmzContentSHA256Mismatch', "The provided 'x-amz-content-sha256' header does not match what was computed."];
  return null;
}

function readWhole(stream) {
  return new Promise((resolve, reject) => {
    const pieces = [];
    let n = 0;
    stream.on('data', piece => {
      n += piece.length;
      if (n > BODY_MAX) reject(new Error('too large'));
      else pieces.push(piece);
    });
    stream.on('end', () => resolve(Buffer.concat(pieces)));
    stream.on('error', reject);
    stream.on('aborted', () => reject(new Error('aborted')));
  });
}

// Returns the path of a request, with the bucket as its first part: BUCKET.localhost/KEY becomes
// /BUCKET/KEY.
function pathStyle(req) {
  const m = /^(.+)\.localhost(?::\d+)?$/.exec(req.headers.host || '');
  return m ? `/${m[1]}${req.url}` : req.url;
}

// s3rver answers a range of an empty object with one byte; other stores refuse every range of an
// empty object.
function isRangeOfNothing(res) {
  return res.statusCode === 206 && /\/0$/.test(res.headers['content-range'] || '');
}

function ask(port, req, body) {
  return new Promise((resolve, reject) => {
    const headers = { ...req.headers, host: '127.0.0.1', 'content-length': body.length };
    delete headers.expect;
    const out = http.request({ port, method: req.method, path: pathStyle(req), headers }, res => {
      if (isRangeOfNothing(res)) {
        res.destroy();
        resolve({ wrong: [416, 'InvalidRange', 'The requested range is not satisfiable'] });
        return;
      }
      readWhole(res).then(answer => resolve({ from: res, answer }), reject);
    });
    out.on('error', reject).end(body);
  });
}

function refuse(req, res, [status, code, message]) {
  const xml = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message>` +
              '<RequestId>1</RequestId></Error>';
  res.writeHead(status, { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(xml) });
  res.end(req.method === 'HEAD' ? undefined : xml);
}

let last = Promise.resolve();

async function serve(port, req, res) {
  const body = await readWhole(req);
  const refused = refusal(req, body);
  if (refused) {
    refuse(req, res, refused);
    return;
  }
  const turn = last.then(() => ask(port, req, body));
  last = turn.catch(() => {});
  const { wrong, from, answer } = await turn;
  if (wrong) {
    refuse(req, res, wrong);
    return;
  }
  for (const name of ['connection', 'keep-alive', 'transfer-encoding']) delete from.headers[name];
  if (req.method !== 'HEAD' && from.statusCode !== 204) from.headers['content-length'] = answer.length;
  res.writeHead(from.statusCode, from.headers);
  res.end(answer);
}

// Replaces s3rver's way to store an object: the object is stored whole or not at all, before the
// answer.
function makePutsWhole(store) {
  store.putObject = async ({ bucket, key, content, metadata }) => {
    const bytes = Buffer.isBuffer(content) ? content : await readWhole(content);
    const file = store.getResourcePath(bucket, key, 'object');
    const md5 = crypto.createHash('md5').update(bytes).digest('hex');
    await fs.promises.mkdir(path.dirname(file), { recursive: true });
    await fs.promises.writeFile(`${file}.new`, bytes);
    await store.putMetadata(bucket, key, metadata, md5);
    await fs.promises.rename(`${file}.new`, file);
    return { size: bytes.length, md5 };
  };
}

function makeCertificate(file) {
  const key = path.join(dir, '.key');
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=127.0.0.1', '-addext',
                           'subjectAltName=IP:127.0.0.1', '-days', '2', '-keyout', key, '-out', file], { stdio: 'pipe' });
  return { key: fs.readFileSync(key), cert: fs.readFileSync(file) };
}

async function main() {
  const s3rver = new S3rver({ directory: dir, address: '127.0.0.1', port: 0, silent: true, vhostBuckets: false,
                              configureBuckets: BUCKETS.map(name => ({ name })) });
  makePutsWhole(s3rver.store);
  const behind = await s3rver.run();
  // s3rver must never close a connection that the next request is about to use
  s3rver.httpServer.keepAliveTimeout = 0;
  const handler = (req, res) => serve(behind.port, req, res).catch(() => res.destroy());
  // the file that gets the certificate; without this argument there is no TLS
  const certificate = process.argv[2];
  const front = certificate ? https.createServer(makeCertificate(certificate), handler) : http.createServer(handler);
  front.keepAliveTimeout = 60000;
  const scheme = certificate ? 'https' : 'http';
  front.listen(0, '127.0.0.1', () => console.log(`listening on ${scheme}://127.0.0.1:${front.address().port}`));
}

main().catch(err => {
  console.error(err);
  process.exit(1);
});

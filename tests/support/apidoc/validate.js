// validate.js: JSON Schema (2020-12) for tests, by npm's ajv: a line of JSON in, a line out, in order.
//
//   {"document": NAME, "content": {...}}         a document with schemas; answer {}
//   {"schema": "NAME#/json/pointer", "value": V} answer {"errors": null}, or a text with V's errors
"use strict";
const Ajv = require("ajv/dist/2020");
const addFormats = require("ajv-formats");
const readline = require("readline");

// Strict: an unknown keyword (a typing error) and an unknown format are errors.
const ajv = new Ajv({ strict: true, allowUnionTypes: true, strictRequired: false, allErrors: false });
addFormats(ajv);
const compiled = new Map();
const parts = new Set(); // of documents

function validator(schema) {
  if (!compiled.has(schema)) compiled.set(schema, ajv.compile({ $ref: schema }));
  return compiled.get(schema);
}

function answer(ask) {
  if (ask.document) {
    // A document is no schema, but contains some: its own members are no unknown keywords.
    for (const key of Object.keys(ask.content)) if (!parts.has(key)) ajv.addKeyword(key), parts.add(key);
    ajv.addSchema(ask.content, ask.document, false, false);
    return {};
  }
  const validate = validator(ask.schema);
  return { errors: validate(ask.value) ? null : ajv.errorsText(validate.errors, { separator: "\n" }) };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let out;
  try {
    out = answer(JSON.parse(line));
  } catch (e) {
    out = { errors: `${e.name}: ${e.message}` };
  }
  process.stdout.write(JSON.stringify(out) + "\n");
});

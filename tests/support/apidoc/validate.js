// validate.js: checks JSON against JSON Schema (2020-12) for tests, with npm's ajv. It answers each
// line of JSON with one line, in order:
//
//   {"document": NAME, "content": {...}}         adds a document with schemas; answers {}
//   {"schema": "NAME#/json/pointer", "value": V} answers {"errors": null}, or a text with V's errors
"use strict";
const Ajv = require("ajv/dist/2020");
const addFormats = require("ajv-formats");
const readline = require("readline");

// In strict mode an unknown keyword (a typing error) or an unknown format is an error.
const ajv = new Ajv({ strict: true, allowUnionTypes: true, strictRequired: false, allErrors: false });
addFormats(ajv);
const compiled = new Map();
const parts = new Set(); // member names of the documents that were added

function validator(schema) {
  if (!compiled.has(schema)) compiled.set(schema, ajv.compile({ $ref: schema }));
  return compiled.get(schema);
}

function answer(ask) {
  if (ask.document) {
    // A document contains schemas but is not a schema, so its own members must not count as unknown
    // keywords.
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

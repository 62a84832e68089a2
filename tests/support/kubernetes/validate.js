// validate.js: reads a JSON list of texts in YAML on standard input, each with objects of
// Kubernetes, and writes a JSON list of what is in each:
//
//   {"objects": [{"line": 1, "value": {...}}, ...], "errors": [{"line": 3, "what": "..."}, ...]}
//
// The API's types are those of npm's kubernetes-types. Each object becomes a literal of its type in
// TypeScript, and the compiler's errors are those of the object: fields that are unknown, missing or
// of a wrong type. All texts are compiled together, because loading the types takes most of the time.
// YAML is read as Kubernetes reads it, as version 1.1: there `on` is a boolean, for example.
"use strict";
const path = require("path");
const ts = require("typescript");
const YAML = require("yaml");

const SOURCE = path.join(path.dirname(path.dirname(require.resolve("kubernetes-types/package.json"))), "..", "manifests.ts");
const OPTIONS = { noEmit: true, strict: true, skipLibCheck: true, types: [], lib: ["lib.es5.d.ts"], module: ts.ModuleKind.CommonJS,
  moduleResolution: ts.ModuleResolutionKind.Node10 };
const UNTYPED = /^kustomize\.config\.k8s\.io\//;

const lines = []; // the source in TypeScript: {text, result, line}, with the place that each line comes from

function literal(node, doc, counter, put) {
  if (YAML.isAlias(node)) node = node.resolve(doc);
  const at = node && node.range ? counter.linePos(node.range[0]).line : 1;
  if (YAML.isMap(node)) {
    put("{", at);
    for (const pair of node.items) {
      put(JSON.stringify(String(pair.key)) + ":", counter.linePos(pair.key.range[0]).line);
      literal(pair.value, doc, counter, put);
      put(",", at);
    }
    put("}", at);
  } else if (YAML.isSeq(node)) {
    put("[", at);
    for (const item of node.items) literal(item, doc, counter, put), put(",", at);
    put("]", at);
  } else {
    put(JSON.stringify(node ? node.toJS(doc) : null), at);
  }
}

function add(doc, counter, result) {
  const value = doc.toJS();
  const line = doc.contents ? counter.linePos(doc.contents.range[0]).line : 1;
  const [, group, version] = /^(?:([a-z0-9.]+)\/)?(v\w+)$/.exec((value && value.apiVersion) || "") || [];
  if (!version || !/^[A-Z]\w*$/.test(value.kind)) {
    result.errors.push({ line, what: "no object with apiVersion and kind" });
    return;
  }
  result.objects.push({ line, value });
  if (UNTYPED.test(value.apiVersion)) return;
  const put = (text, at) => lines.push({ text, result, line: at });
  const n = lines.length;
  put(`import { ${value.kind} as T${n} } from "kubernetes-types/${(group || "core").replace(/\.k8s\.io$/, "")}/${version}";`, line);
  put(`export const o${n}: T${n} =`, line);
  literal(doc.contents, doc, counter, put);
  put(";", line);
}

function read(text) {
  const result = { objects: [], errors: [] };
  const counter = new YAML.LineCounter();
  for (const doc of YAML.parseAllDocuments(text, { version: "1.1", lineCounter: counter })) {
    for (const e of [...doc.errors, ...doc.warnings]) result.errors.push({ line: counter.linePos(e.pos[0]).line, what: e.message.split("\n")[0] });
    if (doc.errors.length === 0) add(doc, counter, result);
  }
  return result;
}

function compile() {
  const host = ts.createCompilerHost(OPTIONS);
  const source = ts.createSourceFile(SOURCE, lines.map((l) => l.text).join("\n"), ts.ScriptTarget.ES5, true);
  const fromDisk = host.getSourceFile;
  host.getSourceFile = (name, ...more) => (name === SOURCE ? source : fromDisk(name, ...more));
  const program = ts.createProgram([SOURCE], OPTIONS, host);
  for (const d of [...program.getOptionsDiagnostics(), ...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]) {
    if (!d.file) throw new Error(ts.flattenDiagnosticMessageText(d.messageText, " "));
    const from = lines[source.getLineAndCharacterOfPosition(d.start).line];
    from.result.errors.push({ line: from.line, what: ts.flattenDiagnosticMessageText(d.messageText, " ") });
  }
}

const results = JSON.parse(require("fs").readFileSync(0, "utf8")).map(read);
compile();
process.stdout.write(JSON.stringify(results) + "\n");

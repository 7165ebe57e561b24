import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'rolldown/utils';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** A TypeScript file of a package, parsed. */
export interface Source {
  /** From the root of the repository, with `/`. */
  readonly path: string;
  /** The module it belongs to, such as `control` or `dashboard`. */
  readonly module: string;
  readonly isTest: boolean;
  readonly lines: number;
  /** String literals, JSX text, and templates with `…` for each expression. */
  readonly texts: readonly string[];
  readonly comments: readonly string[];
  readonly imports: readonly Import[];
  readonly defaultExports: readonly number[];
  readonly anyTypes: readonly number[];
  readonly enums: readonly number[];
  readonly functions: readonly { readonly name: string; readonly lines: number }[];
}

export interface Import {
  readonly specifier: string;
  /** The file it resolves to, if it is in this repository. */
  readonly file: string | null;
  /** The module it resolves to, if it is in this repository. */
  readonly module: string | null;
}

const skipped = new Set(['node_modules', 'dist', 'coverage', '.git', '.muster']);
const builtPage = 'packages/service/static/dashboard';

/** Every file of the repository that was not created by a build, an install or a run. */
export function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (skipped.has(entry.name) || path === builtPage || entry.name.endsWith('.tsbuildinfo')) return [];
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

export const readText = (path: string): string => readFileSync(join(root, path), 'utf8');

export const linesIn = (text: string): number => text.split('\n').length - 1;

export function packageFiles(): string[] {
  const packages = readdirSync(join(root, 'packages')).map((name) => `packages/${name}/package.json`);
  return ['package.json', ...packages, 'test/openapi/package.json'];
}

/** The TypeScript files of every package, tests included. */
export function readSources(): Source[] {
  return readdirSync(join(root, 'packages'))
    .flatMap((name) => filesBelow(`packages/${name}/src`))
    .filter((path) => /\.tsx?$/.test(path))
    .map(readSource);
}

function readSource(path: string): Source {
  const text = readText(path);
  const { program, comments, errors } = parseSync(path, text);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  const texts: string[] = [];
  const specifiers = new Set<string>();
  const defaultExports: number[] = [];
  const anyTypes: number[] = [];
  const enums: number[] = [];
  const functions: { name: string; lines: number }[] = [];
  const lineOf = ({ start }: { start: number }): number => linesIn(text.slice(0, start)) + 1;
  const textLines = text.split('\n');
  const addFunction = (node: { start: number; end: number }): void => {
    const line = lineOf(node);
    const [, declared, method] = functionName.exec(textLines[line - 1] ?? '') ?? [];
    functions.push({
      name: declared ?? method ?? `line ${line}`,
      lines: linesIn(text.slice(node.start, node.end)) + 1,
    });
  };
  const addSource = ({ source }: { source?: { value?: unknown } | null }): void => {
    if (typeof source?.value === 'string') specifiers.add(source.value);
  };
  new Visitor({
    Literal: ({ value }) => {
      if (typeof value === 'string') texts.push(value);
    },
    JSXText: ({ value }) => {
      texts.push(value);
    },
    TemplateLiteral: ({ quasis }) => {
      texts.push(quasis.map(({ value }) => value.cooked ?? value.raw).join('…'));
    },
    ImportDeclaration: addSource,
    ImportExpression: (node) => addSource(node as { source: { value?: unknown } }),
    ExportAllDeclaration: addSource,
    ExportNamedDeclaration: (node) => {
      addSource(node);
      const isDefault = node.specifiers.some(
        ({ exported }) => 'name' in exported && exported.name === 'default',
      );
      if (isDefault) defaultExports.push(lineOf(node));
    },
    ExportDefaultDeclaration: (node) => {
      defaultExports.push(lineOf(node));
    },
    FunctionDeclaration: addFunction,
    FunctionExpression: addFunction,
    ArrowFunctionExpression: addFunction,
    TSAnyKeyword: (node) => {
      anyTypes.push(lineOf(node));
    },
    TSEnumDeclaration: (node) => {
      enums.push(lineOf(node));
    },
  }).visit(program);
  return {
    path,
    module: moduleOf(path),
    isTest: /\.test\.tsx?$/.test(path),
    lines: linesIn(text),
    texts,
    comments: comments.map(({ value }) => value),
    imports: [...specifiers].map((specifier) => importOf(path, specifier)),
    defaultExports,
    anyTypes,
    enums,
    functions,
  };
}

/** In the line in which a function begins; of a callback, the name of what gets it. */
const functionName = /(?:function|const)\s+(\w+)|(#?\w+)\s*[(<]/;

/** `packages/service/src/control/catalog/catalog.ts` → `control`; the dashboard is one module. */
function moduleOf(path: string): string {
  const [, name = '', , module = ''] = path.split('/');
  return name === 'dashboard' ? 'dashboard' : module;
}

const sdkModules: Readonly<Record<string, string>> = {
  '@muster/sdk': 'client',
  '@muster/sdk/contract': 'contract',
  '@muster/sdk/transcript': 'transcript',
};

function importOf(from: string, specifier: string): Import {
  if (!specifier.startsWith('.')) return { specifier, file: null, module: sdkModules[specifier] ?? null };
  const file = relative(root, join(root, dirname(from), specifier))
    .split(sep)
    .join('/');
  return { specifier, file, module: moduleOf(file) };
}

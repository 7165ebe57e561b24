import { readFileSync } from 'node:fs';
import { limits } from '../../packages/sdk/dist/contract/index.js';
import { note, rowsOf } from './markdown.mjs';

const source = readFileSync(new URL('../../packages/sdk/src/contract/limits.ts', import.meta.url), 'utf8');

/** The comment of each limit: what it limits, and after an arrow what happens when it is reached if that is not INVALID_ARGUMENT. */
const comments = Object.fromEntries(
  [...source.matchAll(/\/\*\*((?:(?!\*\/).)*)\*\/\s+(\w+): /gs)].map(([, text, name]) => [
    name,
    text
      .replace(/\s+(\* )?/g, ' ')
      .trim()
      .split(' → '),
  ]),
);

const number = (count) => count.toLocaleString('en-US');

function bytes(count) {
  const [unit, size] = [
    ['GiB', 1024 ** 3],
    ['MiB', 1024 ** 2],
    ['KiB', 1024],
  ].find(([, least]) => count >= least);
  return `${count / size} ${unit}`;
}

/** A value in the unit that its name has. */
function shown(name, value) {
  if (/Bytes/.test(name)) return bytes(value);
  if (/Mb$/.test(name)) return `${number(value)} MiB`;
  if (/Percent$/.test(name)) return `${value} %`;
  if (/Seconds$/.test(name)) return value < 86_400 ? `${value} s` : `${value / 86_400} days`;
  const [, unit] = /(Minutes|Hours|Days)$/.exec(name) ?? [];
  return unit ? `${number(value)} ${unit.toLowerCase()}` : number(value);
}

export const limitsPage = `# Limits

${note('packages/sdk/src/contract/limits.ts')}
A request that is too large is INVALID_ARGUMENT. A count that has reached its limit is RESOURCE_EXHAUSTED, with
\`Retry-After\`. The rate of requests has no limit unless you set \`MUSTER_RATE_LIMIT\`, per second and key (RESOURCE_EXHAUSTED).

| limit | value | what it limits | when it is reached |
|---|---|---|---|
${rowsOf(
  limits,
  comments,
  (name, value, [what, effect = 'INVALID_ARGUMENT']) =>
    `| \`${name}\` | ${shown(name, value)} | ${what} | ${effect} |`,
)}
`;

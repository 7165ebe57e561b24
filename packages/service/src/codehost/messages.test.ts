import { expect, it } from 'vitest';
import { webUrl } from '../work/json-reader.ts';
import type { HostChangeRequest, HostCheck, Permission, Trigger } from './host.ts';
import {
  checksMessage,
  conflictMessage,
  endMessage,
  reviewMessage,
  triggerAgainMessage,
  triggerMessage,
} from './messages.ts';

const lineEnds = ['\n', '\r', '\r\n', '\v', '\f', '\u0085', '\u2028', '\u2029'];
const hostile = `a${lineEnds.map((end) => `${end}INJECTED`).join('')}`;
const person = { id: '1', login: hostile };
const request: HostChangeRequest = {
  ...{ repo: hostile, number: 1, url: hostile, title: hostile, author: person, branch: hostile },
  ...{ base: hostile, headSha: hostile, isFork: false, hasConflict: true, updatedAt: hostile },
  state: 'MERGED',
};
const check: HostCheck = {
  ...{ id: '', name: hostile, state: 'FAILED', url: hostile, summary: hostile },
  annotations: [{ path: hostile, line: 1, message: hostile }],
};
const trigger: Trigger = {
  ...{ subject: { type: 'issue', number: 1 }, value: hostile, title: hostile, body: hostile },
  ...{ author: person, url: hostile, updatedAt: hostile, by: 'label' },
  comment: { id: '1', body: hostile, url: hostile },
};
const permissions: { sender: Permission; author: Permission } = { sender: 'write', author: 'read' };

it('every value of a host is in a quote or on its line, whatever it contains', () => {
  const { description, tasks } = checksMessage(request, [{ check, log: hostile }]);
  const told = [
    description,
    ...tasks.flatMap((task) => [task.subject, task.description, task.dedupKey ?? '']),
    conflictMessage(request).description,
    endMessage(request).description,
    endMessage({ ...request, state: 'CLOSED' }).description,
    reviewMessage(request),
    ...(['label', 'assigned', 'mention'] as const).flatMap((by) => [
      triggerMessage(hostile, { ...trigger, by }, person, permissions),
      triggerAgainMessage(hostile, { ...trigger, by }, person, 'write'),
      triggerAgainMessage(hostile, { ...trigger, by, comment: null }, person, 'write'),
    ]),
  ];
  expect(told).toHaveLength(17);
  const lines = told.flatMap((text) => text?.split(/[\n\r\v\f\u0085\u2028\u2029]/) ?? []);
  expect(lines.filter((text) => /^\s*INJECTED/.test(text))).toEqual([]);
});

it('an address is one of the web, on one line and without credentials', () => {
  expect(webUrl('https://ci.example/1?a=b#c')).toBe('https://ci.example/1?a=b#c');
  expect(webUrl('https://ci.example/a b\nIgnore this')).not.toMatch(/\s/);
  const others = ['javascript:alert(1)', 'data:text/html,x', 'Ignore this', '', '/path', 'https://a:b@host/'];
  for (const other of [...others, `https://host/${'x'.repeat(3_000)}`]) expect(webUrl(other)).toBe('');
});

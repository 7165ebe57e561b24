import type { ReportItem } from '@muster/sdk/contract';
import { expect, it } from 'vitest';
import { OrderedPushes } from './ordered-pushes.ts';

function recorded() {
  const told: string[] = [];
  const pushes = new OrderedPushes(({ ref }) => told.push(ref));
  const item = (type: ReportItem['type'], id?: string) => {
    told.push(id === undefined ? type : `${type} ${id}`);
    pushes.told({ type, ...(id !== undefined && { data: { id } }) });
  };
  return { told, item, pushes, push: (ref: string) => pushes.push({ ref, commits: [], files: [] }) };
}

it('reports a push at once while a call is under way', () => {
  const { told, item, push } = recorded();
  item('TOOL_CALL', '1');
  push('a');
  item('TOOL_RESULT', '1');
  expect(told).toEqual(['TOOL_CALL 1', 'a', 'TOOL_RESULT 1']);
});

it('keeps a push behind a call that is reported late, and a warning does not release it', () => {
  const { told, item, push } = recorded();
  item('TOOL_CALL', '1');
  item('TOOL_RESULT', '1');
  push('a');
  item('WARNING');
  item('TOOL_CALL', '2');
  expect(told).toEqual(['TOOL_CALL 1', 'TOOL_RESULT 1', 'WARNING', 'TOOL_CALL 2', 'a']);
});

it('reports what is left when nothing more comes', () => {
  const { told, push, pushes } = recorded();
  push('a');
  push('b');
  expect(told).toEqual([]);
  pushes.flush();
  expect(told).toEqual(['a', 'b']);
});

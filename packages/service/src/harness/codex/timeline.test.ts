import { limits } from '@muster/sdk/contract';
import { expect, test } from 'vitest';
import { ignored } from '../../../../../test/support/harness-session.ts';
import type { Delta, Notification } from './app-server.ts';
import { type ReadImage, Timeline } from './timeline.ts';

/** What the timeline reports, as `key text` for a piece and `-key` for a text that will not be completed. */
function open(readImage: ReadImage = async () => '') {
  const reported: string[] = [];
  const timeline = new Timeline(
    {
      ...ignored,
      item: ({ type, text = '', data }, images = []) =>
        reported.push([type, data?.key, text, ...images].join(' ')),
      partial: ({ key, text }) => reported.push(`${key} ${text}`),
      discardPartial: (key) => reported.push(`-${key}`),
      usage: () => {},
      push: () => {},
      session: () => {},
    },
    '/work',
    readImage,
  );
  const piece = (what: string, itemId: string, delta: string, summaryIndex = 0) =>
    timeline.addPiece({
      method: `item/${what}`,
      params: { threadId: 't', itemId, delta, summaryIndex },
    } as Delta);
  const notify = (method: string, params: object) => timeline.add({ method, params } as Notification);
  return { reported, piece, notify, timeline };
}

const message = (id: string, text: string) => ({ item: { type: 'agentMessage', id, text } });

test('a piece whose item has no text as its id is not shown', () => {
  const { reported, piece } = open();
  piece('agentMessage/delta', { length: 1 } as never, 'One');
  piece('agentMessage/delta', 'm', 'Two');
  expect(reported).toEqual(['m Two']);
});

test('the parts of a reasoning are paragraphs, and its item has the key of its pieces', () => {
  const { reported, piece, notify } = open();
  piece('reasoning/summaryTextDelta', 'r', 'One');
  piece('reasoning/summaryTextDelta', 'r', ' more');
  piece('reasoning/summaryTextDelta', 'r', 'Two', 1);
  notify('item/completed', {
    item: { type: 'reasoning', id: 'r', summary: ['One more', 'Two'], content: [] },
  });
  expect(reported).toEqual(['r One', 'r  more', 'r \n\nTwo', 'THINKING r One more\n\nTwo']);
});

test.each([
  [
    'the provider fails and is asked again',
    'error',
    { willRetry: true, error: { message: 'Lost', codexErrorInfo: null } },
  ],
  ['another text begins', 'item/started', message('next', '')],
  ['the turn ends', 'turn/completed', { turn: {} }],
])('a text is withdrawn when %s, and the output of a command is not', (_, method, params) => {
  const { reported, piece, notify } = open();
  piece('commandExecution/outputDelta', 'c', 'out');
  piece('agentMessage/delta', 'm', 'Let me');
  notify(method, params);
  expect(reported.slice(0, 3)).toEqual(['c out', 'm Let me', '-m']);
});

test('the images that the agent viewed follow their calls; of those that are gone and of too many only the path is shown', async () => {
  const { reported, notify, timeline } = open(async (path) => (path.endsWith('gone.png') ? '' : `<${path}>`));
  const view = (path: string) => notify('item/completed', { item: { type: 'imageView', id: path, path } });
  view('/work/gone.png');
  view('/tmp/a.png');
  await timeline.imagesRead();
  expect(reported).toEqual(['TOOL_CALL  gone.png', 'TOOL_CALL  /tmp/a.png', 'TOOL_RESULT   </tmp/a.png>']);
  for (let n = 2; n <= limits.toolImagesPerRun; n++) view('/work/b.png');
  await timeline.imagesRead();
  const shown = reported.filter((text) => text.startsWith('TOOL_RESULT'));
  expect(shown).toHaveLength(limits.toolImagesPerRun - 1);
});

test('a completed text is not withdrawn', () => {
  const { reported, piece, notify } = open();
  notify('item/started', message('m', ''));
  piece('agentMessage/delta', 'm', 'Done.');
  notify('item/started', message('m', ''));
  notify('item/completed', message('m', 'Done.'));
  notify('turn/completed', { turn: {} });
  expect(reported).toEqual(['m Done.', 'MESSAGE m Done.']);
});

test('a command that is still running at the end of the run gets one result', () => {
  const { reported, piece, notify, timeline } = open();
  const command = (id: string, more: object = {}) => ({
    item: { type: 'commandExecution', id, command: 'make', aggregatedOutput: 'done', exitCode: 0, ...more },
  });
  notify('item/started', command('a'));
  notify('item/started', command('b'));
  piece('commandExecution/outputDelta', 'b', 'half');
  notify('item/completed', command('a'));
  timeline.endCalls();
  timeline.endCalls();
  expect(reported.filter((text) => text.startsWith('TOOL_RESULT'))).toEqual([
    'TOOL_RESULT  done',
    'TOOL_RESULT b It was still running at the end of the run, and was stopped.',
  ]);
});

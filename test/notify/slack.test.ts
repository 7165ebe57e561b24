import { describe, expect, test } from 'vitest';
import type { Message } from '../../packages/service/src/notify/channel.ts';
import { slackMessage } from '../../packages/service/src/notify/slack.ts';
import { aMessage, messages } from './messages.ts';

interface Text {
  readonly type: string;
  readonly text: string;
  readonly verbatim?: boolean;
}
interface Block {
  readonly type: string;
  readonly text?: Text;
  readonly elements?: readonly (Text & { readonly text: string | Text; readonly url?: string })[];
}
interface SlackMessage {
  readonly text: string;
  readonly parse: string;
  readonly link_names: boolean;
  readonly blocks: readonly Block[];
}

const slackOf = (message: Message) => JSON.parse(JSON.stringify(slackMessage(message))) as SlackMessage;

/** The limits that Slack publishes for blocks. */
function expectWithinLimits({ text, blocks }: SlackMessage): void {
  expect(blocks.length).toBeLessThanOrEqual(50);
  expect(text.length).toBeLessThanOrEqual(4_000);
  for (const block of blocks) {
    if (block.type === 'header') {
      expect(block.text?.type).toBe('plain_text');
      expect(block.text?.text.length).toBeLessThanOrEqual(150);
    }
    if (block.type === 'section') expect(block.text?.text.length).toBeLessThanOrEqual(3_000);
    if (block.type === 'section') expect(block.text?.text.length).toBeGreaterThan(0);
    if (block.type === 'actions')
      for (const { text: label, url } of block.elements ?? []) {
        expect((label as unknown as Text).text.length).toBeLessThanOrEqual(75);
        expect(url?.length).toBeLessThanOrEqual(3_000);
      }
  }
}

test('a message has the name of the agent, its question, and a button that opens it', () => {
  const message = slackOf(aMessage({ text: 'Which database?\nSQLite or *PostgreSQL*?' }));
  expect(message).toMatchObject({
    text: 'fix-login needs input: Which database?\nSQLite or *PostgreSQL*?',
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: 'fix-login needs input' } },
      { type: 'section', text: { type: 'mrkdwn', text: 'Which database?\nSQLite or *PostgreSQL*?' } },
      { type: 'context', elements: [{ text: 'default · ada' }] },
      { type: 'actions', elements: [{ type: 'button', text: { text: 'Open agent' }, url: aMessage().url }] },
    ],
  });
  expectWithinLimits(message);
});

describe('text of an agent', () => {
  test.each([
    [
      '<!channel> <!here> <@U123> <#C123> <https://evil.example|click>',
      '&lt;!channel&gt; &lt;!here&gt; &lt;@U123&gt; &lt;#C123&gt; &lt;https://evil.example|click&gt;',
    ],
    ['a & b &lt;!channel&gt;', 'a &amp; b &amp;lt;!channel&amp;gt;'],
    ['@here @channel @everyone', '@here @channel @everyone'],
  ])('%s mentions nobody and is no link', (text, escaped) => {
    const message = slackOf(aMessage({ text }));
    const section = message.blocks.find(({ type }) => type === 'section');
    expect(section?.text).toEqual({ type: 'mrkdwn', text: escaped, verbatim: true });
    expect(message).toMatchObject({ parse: 'none', link_names: false });
    expect(message.text).not.toMatch(/<[!@#h]/);
  });

  test.each(['&'.repeat(10_000), '😀'.repeat(10_000), 'x'.repeat(10_000), `${'a'.repeat(2_998)}&&&`])(
    'stays within the limits, without half of an entity or of a character',
    (text) => {
      const message = slackOf(aMessage({ text, title: text.slice(0, 400) }));
      expectWithinLimits(message);
      for (const { type, text: one } of message.blocks) {
        if (type !== 'section') continue;
        expect(one?.text ?? '').not.toMatch(/&[a-z]*…$/);
        expect((one?.text ?? '').isWellFormed?.() ?? true).toBe(true);
      }
    },
  );
});

test('a digest has a line with a link for some events, and says how many more there are', () => {
  const digest = slackOf(
    aMessage({
      ...{ type: 'digest', title: '5000 agents need input', text: '', agent: null },
      digest: {
        total: 5_000,
        counts: [['agent.needs_input', 5_000]],
        messages: messages(20, '<!channel>|'.repeat(500)),
      },
    }),
  );
  expectWithinLimits(digest);
  expect(digest.blocks.filter(({ type }) => type === 'section')).toHaveLength(21);
  expect(digest.blocks[1]?.text?.text).toMatch(/^<http:\/\/m\/0\|agent-0 needs input: &lt;!channel&gt;¦/);
  expect(digest.blocks.at(-2)?.text?.text).toBe('4980 more');
});

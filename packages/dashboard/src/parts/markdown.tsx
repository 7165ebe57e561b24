import { marked, type Token, type Tokens } from 'marked';
import { Fragment, type ReactNode, useMemo } from 'react';
import { DiffLines } from './diff-lines.tsx';
import { isParsable } from './model/markdown-limits.ts';
import { visibleControls } from './model/text.ts';

/**
 * Renders Markdown as React elements, so that text from agents can never become markup of the page: HTML stays text, and
 * links lead only to http and https.
 */
export function Markdown({ text }: { readonly text: string }) {
  const tokens = useMemo(() => tokensOf(text), [text]);
  return (
    <div className="markdown stack">
      {tokens ? (
        drawn(tokens)
      ) : (
        <p className="markdown-plain" dir="auto">
          {text}
        </p>
      )}
    </div>
  );
}

/** Null if the text is too long, too deeply nested or not parsable. */
function tokensOf(text: string): Token[] | null {
  if (!isParsable(text)) return null;
  try {
    const tokens = marked.lexer(text, { gfm: true, breaks: true });
    return isDeeper(tokens, maxTokenDepth) ? null : tokens;
  } catch {
    return null;
  }
}

const maxTokenDepth = 100;

/** Elements would be nested as deeply as the tokens are. */
function isDeeper(tokens: readonly Token[], depth: number): boolean {
  if (depth === 0) return true;
  return tokens.some((token) => {
    const { tokens: inner, items } = token as { tokens?: Token[]; items?: Token[] };
    return (inner && isDeeper(inner, depth - 1)) || (items && isDeeper(items, depth - 1));
  });
}

const drawn = (tokens: readonly Token[] | undefined): ReactNode =>
  // biome-ignore lint/suspicious/noArrayIndexKey: a token has no other identity than its index.
  (tokens ?? []).map((token, at) => <Fragment key={at}>{drawToken(token)}</Fragment>);

function drawToken(token: Token): ReactNode {
  switch (token.type) {
    case 'space':
      return null;
    case 'heading':
      return (
        <p className="markdown-heading" dir="auto">
          {drawn(token.tokens)}
        </p>
      );
    case 'paragraph':
      return <p dir="auto">{drawn(token.tokens)}</p>;
    case 'code':
      return token.lang === 'diff' ? (
        <DiffLines diff={token.text as string} />
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
        <pre tabIndex={0}>
          <code>{visibleControls(token.text as string)}</code>
        </pre>
      );
    case 'blockquote':
      return <blockquote dir="auto">{drawn(token.tokens)}</blockquote>;
    case 'list':
      return drawList(token as Tokens.List);
    case 'table':
      return drawTable(token as Tokens.Table);
    case 'hr':
      return <hr />;
    case 'strong':
      return <strong>{drawn(token.tokens)}</strong>;
    case 'em':
      return <em>{drawn(token.tokens)}</em>;
    case 'del':
      return <del>{drawn(token.tokens)}</del>;
    case 'codespan':
      return <code>{visibleControls(token.text as string)}</code>;
    case 'br':
      return <br />;
    case 'link':
      return drawLink(token as Tokens.Link);
    case 'text':
      return token.tokens ? drawn(token.tokens) : token.text;
    case 'escape':
      return token.text;
    default:
      return token.raw;
  }
}

function drawList({ ordered, start, items }: Tokens.List): ReactNode {
  const drawnItems = items.map((item, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: an item has no other identity than its index.
    <li key={at} dir="auto">
      {item.task && <input type="checkbox" checked={item.checked ?? false} disabled aria-label="done" />}
      {drawn(item.tokens)}
    </li>
  ));
  return ordered ? <ol start={Number(start) || 1}>{drawnItems}</ol> : <ul>{drawnItems}</ul>;
}

const drawTable = ({ header, rows }: Tokens.Table): ReactNode => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard.
  <div className="markdown-table" tabIndex={0}>
    <table>
      <thead>
        <tr>
          {header.map((cell, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a cell has no other identity than its index.
            <th key={at} dir="auto">
              {drawn(cell.tokens)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a row has no other identity than its index.
          <tr key={at}>
            {row.map((cell, column) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a cell has no other identity than its index.
              <td key={column} dir="auto">
                {drawn(cell.tokens)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

function drawLink({ href, tokens }: Tokens.Link): ReactNode {
  if (!/^https?:\/\//i.test(href)) return drawn(tokens);
  return (
    <a href={href} target="_blank" rel="noreferrer noopener">
      {drawn(tokens)}
    </a>
  );
}

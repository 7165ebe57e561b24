import { Markdown } from '../../../parts/markdown.tsx';
import { visibleControls } from '../../../parts/model/text.ts';
import { commentParts } from '../model/suggestion.ts';

/** A comment: Markdown, and suggestions as the difference to the commented lines. */
export const CommentText = ({ text, quote }: { readonly text: string; readonly quote: string }) => (
  <>
    {commentParts(text).map((part, at) =>
      part.kind === 'text' ? (
        // biome-ignore lint/suspicious/noArrayIndexKey: a part has no other identity than its index.
        <Markdown key={at} text={part.text} />
      ) : (
        // biome-ignore lint/suspicious/noArrayIndexKey: the same.
        <Suggestion key={at} before={quote === '' ? [] : quote.split('\n')} after={part.lines} />
      ),
    )}
  </>
);

interface SuggestionProps {
  readonly before: readonly string[];
  readonly after: readonly string[];
}

const Suggestion = ({ before, after }: SuggestionProps) => (
  <figure>
    <figcaption className="secondary">Suggested change</figcaption>
    {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable element must be reachable by keyboard. */}
    <pre className="diff-lines" tabIndex={0}>
      <SuggestedLines side="removed" sign="-" lines={before} />
      <SuggestedLines side="added" sign="+" lines={after} />
    </pre>
  </figure>
);

const SuggestedLines = ({
  side,
  sign,
  lines,
}: {
  readonly side: 'removed' | 'added';
  readonly sign: string;
  readonly lines: readonly string[];
}) =>
  lines.map((line, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: a line has no other identity than its index.
    <span key={at} data-side={side}>
      {`${sign}${visibleControls(line)}\n`}
    </span>
  ));

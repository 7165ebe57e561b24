/** A comment is Markdown with suggestions: fenced blocks of the lines that should replace the commented ones. */
export type CommentPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'suggestion'; readonly lines: readonly string[] };

/** Splits a comment at its suggestions. A block that is not closed ends with the text. */
export function commentParts(body: string): readonly CommentPart[] {
  const parts: CommentPart[] = [];
  let text: string[] = [];
  let fence = '';
  const endText = () => {
    if (text.some((line) => line.trim() !== '')) parts.push({ kind: 'text', text: text.join('\n') });
    text = [];
  };
  const endSuggestion = () => {
    parts.push({ kind: 'suggestion', lines: text });
    text = [];
    fence = '';
  };
  for (const line of body.split('\n')) {
    const opening = fence === '' && /^(`{3,})suggestion\s*$/.exec(line)?.[1];
    if (opening) {
      endText();
      fence = opening;
    } else if (fence !== '' && line.trimEnd() === fence) endSuggestion();
    else text.push(line);
  }
  if (fence === '') endText();
  else endSuggestion();
  return parts;
}

/** A suggestion that begins as the lines are. Its fence is longer than any in them. */
export function suggestionOf(code: string): string {
  const longest = Math.max(2, ...(code.match(/`{3,}/g) ?? []).map(({ length }) => length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}suggestion\n${code}\n${fence}\n`;
}

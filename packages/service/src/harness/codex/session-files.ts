/**
 * The files that make up a session, as patterns below the agent's home: what another machine needs to resume it. The
 * rollout is the whole of it; the databases beside it are an index that Codex makes again.
 */
export function sessionFiles(ref: string): string[] {
  return isThreadId(ref) ? [`.codex/sessions/*/*/*/rollout-*-${ref}.jsonl*`] : [];
}

/** The name comes from within the sandbox and becomes part of a path: nothing but a UUID is one. */
export const isThreadId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

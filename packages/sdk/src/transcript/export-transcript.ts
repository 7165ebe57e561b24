import { type AgentRef, type MusterClient, NotFoundError, type WaitSettings } from '../client/index.ts';
import { htmlWriter } from './html.ts';
import { jsonWriter } from './json.ts';
import { markdownWriter } from './markdown.ts';
import type { Images, TranscriptWriter } from './transcript-writer.ts';

/**
 * Writes whole transcripts as a document, for the command line and for browsers. The service only answers its usual
 * pages. Nothing is kept from one entry to the next, so the memory does not grow with the transcript.
 */
export const transcriptFormats = ['md', 'json', 'html'] as const;
export type TranscriptFormat = (typeof transcriptFormats)[number];

const writers: Readonly<Record<TranscriptFormat, TranscriptWriter>> = {
  md: markdownWriter,
  json: jsonWriter,
  html: htmlWriter,
};

export interface ExportSettings extends WaitSettings {
  readonly format: TranscriptFormat;
  /** Also of all agents below it, each after the other. */
  readonly hasChildren?: boolean | undefined;
  /** Called with the number of entries so far. */
  readonly onEntries?: ((count: number) => void) | undefined;
}

/** The source of an export; a `MusterClient` is one. */
export type TranscriptSource = Pick<MusterClient, 'status' | 'timelineAll' | 'listAll'> & {
  readonly attachments: Pick<MusterClient['attachments'], 'read'>;
};

/** Yields the document in pieces, up to the newest entry there is when it gets there. */
export async function* exportTranscript(
  client: TranscriptSource,
  agent: AgentRef,
  { format, hasChildren = false, signal, onEntries }: ExportSettings,
): AsyncGenerator<string, void, void> {
  const writer = writers[format];
  let count = 0;
  let isFirstAgent = true;
  for await (const each of agentsOf(client, agent, hasChildren, signal)) {
    const status = await client.status(each, { signal });
    const images = imagesOf(client, each, signal);
    // Not before the status is read: an agent that does not exist has no document.
    if (isFirstAgent) yield writer.start(new Date().toISOString());
    yield writer.agentStart(status, isFirstAgent);
    isFirstAgent = false;
    let isFirst = true;
    for await (const entry of client.timelineAll(each, { signal })) {
      yield await writer.entry(entry, isFirst, images);
      isFirst = false;
      count += 1;
      onEntries?.(count);
    }
    yield writer.agentEnd;
  }
  yield writer.end;
}

async function* agentsOf(
  client: TranscriptSource,
  agent: AgentRef,
  hasChildren: boolean,
  signal: AbortSignal | undefined,
): AsyncGenerator<AgentRef, void, void> {
  yield agent;
  if (!hasChildren) return;
  const below = client.listAll({ parent: agent, allDepths: true, includeTerminal: true }, { signal });
  for await (const { agentId } of below) yield agentId;
}

const imageTypes: readonly string[] = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];

const imagesOf =
  (client: TranscriptSource, agent: AgentRef, signal: AbortSignal | undefined): Images =>
  async (attachmentId) => {
    try {
      const { content, mediaType } = await client.attachments.read(agent, attachmentId, { signal });
      const isImage = imageTypes.includes(mediaType) && /^[A-Za-z0-9+/]*=*$/.test(content);
      return isImage ? `data:${mediaType};base64,${content}` : null;
    } catch (error) {
      if (error instanceof NotFoundError) return null;
      throw error;
    }
  };

import type { AgentStatus } from '../contract/agent.ts';
import type { TimelineEntry } from '../contract/timeline.ts';

/** The parts of a document in one format. */
export interface TranscriptWriter {
  readonly start: (exportedAt: string) => string;
  readonly agentStart: (status: AgentStatus, isFirst: boolean) => string;
  readonly entry: (entry: TimelineEntry, isFirst: boolean, images: Images) => string | Promise<string>;
  readonly agentEnd: string;
  readonly end: string;
}

/** Reads an image of the agent as a `data:` URL; null if it was deleted. */
export type Images = (attachmentId: string) => Promise<string | null>;

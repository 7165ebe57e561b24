export { exportTranscript, type TranscriptFormat, transcriptFormats } from './export-transcript.ts';
export { entryMarkdown, type MarkdownLimits } from './markdown.ts';

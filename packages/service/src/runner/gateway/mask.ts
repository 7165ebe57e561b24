/**
 * A provider may quote its key in an error, whole or with its middle starred out. Neither the agent nor the log is to
 * see any of it.
 */
export function masked(text: string, key: string): string {
  return text
    .replaceAll(key, '***')
    .replace(/[\w*-]+/g, (word) => (word.includes('***') ? '***' : word))
    .replace(/\bsk-[\w-]{4,}/g, '***');
}

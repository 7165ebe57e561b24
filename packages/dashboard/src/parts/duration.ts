/** How long something took: `42s`, `2m 10s`, `1h 05m`, `3d 4h`. */
export function durationWords(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const days = Math.floor(seconds / 86_400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) return `${days}d ${hours}h`;
  if (hours > 0) return `${hours}h ${two(minutes)}m`;
  return minutes > 0 ? `${minutes}m ${two(seconds % 60)}s` : `${seconds}s`;
}

const two = (value: number): string => String(value).padStart(2, '0');

import { spawn } from 'node:child_process';

/** Opens a page where there is a browser. Its URL was printed, so nothing is said where there is none. */
export function openInBrowser(url: string): void {
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open';
  spawn(program, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}

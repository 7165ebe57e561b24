export const version = '0.1.0';

/** The numbers of a version such as 1.4.2-beta.1. */
const partsOf = (text: string): readonly number[] | undefined =>
  /^(\d+)\.(\d+)\.\d+/.exec(text)?.slice(1).map(Number);

/** What to do about a runner of this version: the policy is in docs/operations.md. Empty if it is supported. */
export function versionWarning(runner: string, service = version): string {
  const [major = 0, minor = 0] = partsOf(service) ?? [];
  const [runnerMajor, runnerMinor = 0] = partsOf(runner) ?? [];
  const expected = `expected ${major}.${minor}${minor > 0 ? ` or ${major}.${minor - 1}` : ''}, as the service has ${service}`;
  if (runnerMajor === undefined) return `The runner reports no known version ("${runner}"); ${expected}.`;
  const isNewer = runnerMajor > major || (runnerMajor === major && runnerMinor > minor);
  if (isNewer) return `The runner has the newer version ${runner}; ${expected}. Upgrade the service.`;
  const isSupported = runnerMajor === major && runnerMinor >= minor - 1;
  return isSupported ? '' : `The runner has the old version ${runner}; ${expected}. Upgrade the runner.`;
}

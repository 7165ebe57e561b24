import { agentOfPage } from '@muster/sdk/contract';

const ending = '/review';

/** The page of the agent whose review has this address; undefined if it is not the address of a review. */
export function reviewedPage(path: string): string | undefined {
  const page = path.endsWith(ending) ? path.slice(0, -ending.length) : '';
  return agentOfPage(page) && page;
}

export const reviewOfPage = (page: string): string => page + ending;

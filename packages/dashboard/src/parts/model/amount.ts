/** What is wrong with an amount that was entered; undefined if nothing is. */
export const amountProblem = (text: string): string | undefined =>
  /^\d+(\.\d+)?$/.test(text.trim()) ? undefined : 'Enter an amount in USD, such as 20 or 2.50.';

export const outputForms = ['table', 'json', 'yaml'] as const;
export type OutputForm = (typeof outputForms)[number];

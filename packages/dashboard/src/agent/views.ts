/** On a phone there is room for one of the two. */
export const agentViews = [
  ['transcript', 'Transcript'],
  ['panels', 'Tasks and more'],
] as const;
export type AgentView = (typeof agentViews)[number][0];

/**
 * The names of what spans say. GenAI names are those of OpenTelemetry's conventions for generative AI, which may still
 * change: nothing else names them.
 */
export const genAi = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  agentId: 'gen_ai.agent.id',
  agentName: 'gen_ai.agent.name',
  conversationId: 'gen_ai.conversation.id',
  requestModel: 'gen_ai.request.model',
  responseModel: 'gen_ai.response.model',
  finishReasons: 'gen_ai.response.finish_reasons',
  timeToFirstChunk: 'gen_ai.response.time_to_first_chunk',
  inputTokens: 'gen_ai.usage.input_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheWriteTokens: 'gen_ai.usage.cache_creation.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  /** In USD. The conventions have no name for it yet; this one is what collectors read. */
  cost: 'gen_ai.usage.cost',
  toolName: 'gen_ai.tool.name',
  toolCallId: 'gen_ai.tool.call.id',
  toolArguments: 'gen_ai.tool.call.arguments',
  toolResult: 'gen_ai.tool.call.result',
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
} as const;

export const muster = {
  run: 'muster.run.number',
  attempt: 'muster.run.attempt',
  outcome: 'muster.run.outcome',
  tenant: 'muster.tenant',
  workspace: 'muster.workspace',
  followUp: 'muster.follow_up.id',
  leftOut: 'muster.spans.left_out',
} as const;

export const http = {
  method: 'http.request.method',
  route: 'http.route',
  status: 'http.response.status_code',
} as const;

export const errorType = 'error.type';

/** Written as a floating-point number even when it is whole: a collector expects one type of each attribute. */
export const floats: ReadonlySet<string> = new Set([genAi.cost, genAi.timeToFirstChunk]);

/** As the conventions name the providers. */
export const providerNames = {
  anthropic: 'anthropic',
  bedrock: 'aws.bedrock',
  vertex: 'gcp.vertex_ai',
  openai: 'openai',
  azure: 'azure.ai.openai',
  chatgpt: 'openai',
} as const;

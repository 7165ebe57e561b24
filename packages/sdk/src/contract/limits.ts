/**
 * All limits of the service, and after the arrow what happens at one. Without an arrow a request is INVALID_ARGUMENT; a
 * count that is too high is RESOURCE_EXHAUSTED. docs/limits.md has these comments; the unit is the end of the name.
 */
export const limits = {
  /** The body of a request, except an image, a part of a checkpoint and a sign-in (4 KiB) */
  bodyBytes: 1024 * 1024,
  /**
   * Bodies over 64 KiB of one account that a process receives or handles at the same time, by their declared length →
   * UNAVAILABLE
   */
  openBodyBytesPerAccount: 128 * 1024 * 1024,
  /** Levels of nesting in the body of a request */
  bodyDepth: 100,
  /** Objects and lists in the body of a request */
  bodyObjects: 50_000,
  /** `description` and `expectedOutput`, in bytes of UTF-8 */
  descriptionBytes: 256 * 1024,
  /**
   * Tasks of one agent, on its checklist and in undelivered messages; also tasks in one request → RESOURCE_EXHAUSTED;
   * in one request INVALID_ARGUMENT
   */
  tasksPerAgent: 500,
  /** The texts of those tasks, and the ids in their `blocks` and `blockedBy`, in bytes of UTF-8 → RESOURCE_EXHAUSTED */
  taskBytesPerAgent: 4 * 1024 * 1024,
  /** Queued and deferred follow-ups of one agent → RESOURCE_EXHAUSTED */
  undeliveredFollowUpsPerAgent: 1000,
  /** Elements of an agent path */
  pathDepth: 8,
  /** Live agents below one root → RESOURCE_EXHAUSTED */
  liveDescendantsPerRoot: 500,
  /** Entries of one page; also the default */
  pageSize: 1000,
  /**
   * Texts and data of one page of agents, of runs or of a timeline, in bytes of UTF-8; at least one entry → the page
   * ends
   */
  pageBytes: 4 * 1024 * 1024,
  /** Characters of the text that a list or a timeline is searched for */
  searchedTextLength: 256,
  /** Entries of a timeline that one page of a search looks through → the page ends */
  searchedEntries: 5_000,
  /** Their texts, in bytes of UTF-8; at least one → the page ends */
  searchedBytes: 4 * 1024 * 1024,
  /** Characters of a description that a list shows → is cut */
  listedDescriptionLength: 200,
  /** Characters of what an agent said that a list shows → is cut */
  newsLength: 280,
  /** A response in a list of runs, and a message in a status, in bytes of UTF-8 → is cut */
  listedTextBytes: 4 * 1024,
  /** Messages and schemas in one page of a queue; at least one message → the page ends */
  queuePageBytes: 2 * 1024 * 1024,
  /** Personas and output schemas of the undelivered follow-ups of one agent → RESOURCE_EXHAUSTED */
  undeliveredSettingsBytes: 8 * 1024 * 1024,
  /** Agents in one wait for several */
  agentsPerWait: 1000,
  /** Agents in one retry of several */
  agentsPerRetry: 1000,
  /** Marks of agents in one request */
  marksPerRequest: 500,
  /** Agents that one account has seen or pinned → the marks of the oldest agents are deleted */
  marksPerAccount: 20_000,
  /** How long a run that no budget limits may spend before it asks again, so how late a new budget holds for it */
  unlimitedCreditSeconds: 30,
  /** Budgets of agents in one list of budgets → `more` is true */
  budgetsPerList: 500,
  /** `timeoutSeconds` of a wait */
  waitSeconds: 7 * 24 * 3600,
  /** `outputSchema`, in bytes */
  outputSchemaBytes: 64 * 1024,
  /** Objects and arrays in an `outputSchema` */
  outputSchemaNodes: 2000,
  /** References (`$ref`) in an `outputSchema` */
  outputSchemaReferences: 200,
  /** Output schemas of one tenant that wait to be compiled on a node → RESOURCE_EXHAUSTED */
  outputSchemasWaiting: 100,
  /** A catalog document, decoded */
  documentBytes: 512 * 1024,
  /** The text of a catalog document, as its author wrote it */
  documentTextBytes: 256 * 1024,
  /** Texts of one account that wait to be compared with their documents on a node → RESOURCE_EXHAUSTED */
  documentTextsWaiting: 50,
  /** Documents of one page of a catalog list or history, without the first → the page ends */
  catalogPageBytes: 4 * 1024 * 1024,
  /**
   * Catalog documents of one kind of a tenant; those that one member created at most half of it → RESOURCE_EXHAUSTED
   */
  documentsPerKind: 10_000,
  /** Those documents in bytes, the same way → RESOURCE_EXHAUSTED */
  documentBytesPerKind: 64 * 1024 * 1024,
  /** Documents and values of the kind `secret` instead → RESOURCE_EXHAUSTED */
  secretBytesPerTenant: 2 * 1024 * 1024,
  /** Documents of the kind `budget` instead: each request to a model reads those that cover its agent → RESOURCE_EXHAUSTED */
  budgetsPerTenant: 100,
  /** Documents of the kind `notification` instead: each event is compared with all of them → RESOURCE_EXHAUSTED */
  notificationsPerTenant: 500,
  /** Their bytes → RESOURCE_EXHAUSTED */
  notificationBytesPerTenant: 2 * 1024 * 1024,
  /** Addresses in `to` of a notification */
  addressesPerNotification: 20,
  /** Documents of the kind `schedule` instead; those that one member created at most half of it → RESOURCE_EXHAUSTED */
  schedulesPerTenant: 1000,
  /** `jitterSeconds` of a schedule */
  scheduleJitterSeconds: 3600,
  /** Times that a schedule with `missed: all` fires for afterwards; the newest ones → older ones are skipped */
  scheduleMissedFires: 24,
  /** Fires of a schedule in a row that fail → it is paused */
  scheduleFailures: 10,
  /** How long the history of a schedule is stored → it is deleted */
  scheduleHistoryDays: 90,
  /** Entries in the history of one schedule → the oldest are deleted */
  firesPerSchedule: 1000,
  /** Documents of the kind `integration` instead → RESOURCE_EXHAUSTED */
  integrationBytesPerTenant: 2 * 1024 * 1024,
  /**
   * Generations of a resource whose documents are in its history; the newest ones → those of older ones are empty; who
   * wrote them, when and why stays
   */
  historyDocuments: 100,
  /** Levels of nesting in a document or an output schema */
  documentDepth: 64,
  /** Warnings about one catalog document → further ones are left out */
  documentWarnings: 20,
  /** Paths of an `updateMask` */
  maskPaths: 100,
  /** The value of a secret */
  secretValueBytes: 64 * 1024,
  /** Secrets in the environment and the MCP servers of a run → the run fails with ENVIRONMENT_INVALID */
  secretBytesPerRun: 128 * 1024,
  /** Earlier values of a secret that are masked, each for a week → the oldest are no longer masked */
  earlierValuesPerSecret: 10,
  /**
   * Earlier values of all secrets of a tenant that are masked in a post to a code host → the oldest are no longer
   * masked
   */
  earlierValuesMasked: 100,
  /** `mcpServers` of a workspace */
  mcpServersPerWorkspace: 20,
  /** Headers, arguments or variables of one MCP server */
  mcpServerEntries: 50,
  /**
   * `url`, `command`, an argument, a header or a variable of an MCP server, in characters → INVALID_ARGUMENT; of a
   * header from a secret: the run fails with ENVIRONMENT_INVALID
   */
  mcpTextLength: 8192,
  /** `command` and `args` of an MCP server together, in characters */
  mcpCommandLength: 16 * 1024,
  /** Variables of all local MCP servers of a run → the run fails with ENVIRONMENT_INVALID */
  mcpEnvironmentBytes: 256 * 1024,
  /** A request of an agent to a remote MCP server → the gateway refuses it (413) */
  mcpRequestBytes: 16 * 1024 * 1024,
  /** Open requests and event streams of a run at one remote MCP server → the gateway refuses more (429) */
  mcpRequestsPerServer: 16,
  /** A part of a checkpoint */
  checkpointPartBytes: 1024 * 1024,
  /** Parts of a checkpoint */
  checkpointParts: 64,
  /**
   * Texts and data of the agents of one tenant, their messages, timelines and diffs, and the history of its catalog
   * (`MUSTER_TENANT_STORAGE_MB`) → RESOURCE_EXHAUSTED
   */
  storageBytesPerTenant: 100 * 1024 * 1024 * 1024,
  /**
   * What one account may use of that, of the checkpoints and of the images, if the tenant has other accounts →
   * RESOURCE_EXHAUSTED
   */
  accountSharePercent: 50,
  /** Checkpoints of one tenant (`MUSTER_TENANT_CHECKPOINTS_MB`) → RESOURCE_EXHAUSTED */
  checkpointBytesPerTenant: 10 * 1024 * 1024 * 1024,
  /** Checkpoints of one agent → the oldest are dropped */
  checkpointsPerAgent: 2,
  /**
   * Prepared copies of workspaces on one runner ([warm starts](operations.md#warm-starts)) → the least recently used is
   * removed
   */
  preparedCopies: 32,
  /** Those of one workspace → the least recently used is removed */
  preparedCopiesPerWorkspace: 2,
  /** Those of one runner together, on disk → the least recently used is removed */
  preparedCopyBytes: 50 * 1024 * 1024 * 1024,
  /** Submodules of the repositories of one workspace → are not fetched, with a warning */
  submodulesPerRun: 64,
  /** Levels of submodules in submodules → are not fetched, with a warning */
  submoduleDepth: 5,
  /** A batch request of git-lfs → 413 */
  lfsBatchBytes: 1024 * 1024,
  /** Objects in the answer to it → is cut */
  lfsBatchObjects: 1000,
  /** Real runs of one runner at the same time → `phaseReason` POOL_FULL */
  runsPerRunner: 8,
  /** Rehearsed runs of one runner at the same time → `phaseReason` POOL_FULL */
  rehearsedRunsPerRunner: 256,
  /** Live runners of one token → RESOURCE_EXHAUSTED */
  runnersPerToken: 500,
  /** Live runners of one tenant → RESOURCE_EXHAUSTED */
  runnersPerTenant: 1000,
  /** Labels of one agent → RESOURCE_EXHAUSTED; in one request INVALID_ARGUMENT */
  labelsPerAgent: 32,
  /** A label's key, in characters */
  labelKeyLength: 63,
  /** A label's value, in characters */
  labelValueLength: 256,
  /**
   * Memory of a run if its `vm-profile` has no `memoryMb`; three quarters of the memory of a smaller machine → the
   * kernel kills a process; WARNING
   */
  runMemoryMb: 4096,
  /** Processes and threads of a run if its `vm-profile` has no `processes` → WARNING */
  runProcesses: 1024,
  /** /tmp, /run and /dev/shm of a sandbox, each, if the `vm-profile` has no `scratchMb` → disk full; WARNING */
  runScratchMb: 1024,
  /** A turn, from claim to end, if the pool has no `maxTurnMinutes` → outcome INTERRUPTED; WARNING */
  turnMinutes: 120,
  /** `maxTurnMinutes` of a pool */
  mostTurnMinutes: 10_080,
  /** `followUpId`, task ids, `Idempotency-Key`, in characters */
  idLength: 128,
  /** Path elements, workspace, persona and catalog names, in characters */
  nameLength: 128,
  /** A task's `subject`, in characters */
  taskSubjectLength: 1024,
  /** A task's `description`, in characters */
  taskDescriptionLength: 64 * 1024,
  /** `note` of a changed task, in characters */
  taskNoteLength: 16 * 1024,
  /** Steps of an agent's own plan; the rest is counted in the last one → is cut */
  planSteps: 50,
  /** A step of an agent's own plan, in characters → is cut */
  planStepLength: 200,
  /** Comments of one review, and threads in one message */
  commentsPerReview: 100,
  /** `body` of a comment on a change, in characters */
  commentLength: 64 * 1024,
  /** `quote` of a comment on a change, in characters */
  threadQuoteLength: 2000,
  /** Open review threads of one agent → RESOURCE_EXHAUSTED */
  openThreadsPerAgent: 500,
  /** The texts of those threads, in bytes of UTF-8 → RESOURCE_EXHAUSTED */
  threadBytesPerAgent: 4 * 1024 * 1024,
  /** Resolved review threads of one agent, beside those of its open change requests → the oldest are deleted */
  resolvedThreadsPerAgent: 1000,
  /** A task's glob `activation.filesModified.pattern`, in characters */
  patternLength: 1024,
  /** A file name in a push that a runner reports or in a comment on a change, in characters */
  fileNameLength: 4096,
  /** Files of one push that a runner reports */
  filesPerPush: 10_000,
  /** `justification`, in characters */
  justificationLength: 4096,
  /** How far ahead `deliverAt` may be */
  deferDays: 30,
  /** How long a timeline, checkpoints, a diff and review threads are stored after the agent's end → OUT_OF_RANGE */
  timelineDays: 30,
  /**
   * Runs of one live agent whose response and structured output are stored; the newest ones → those of older runs are
   * empty
   */
  runResultsPerAgent: 1_000,
  /** How long the reply for an `Idempotency-Key` is stored → – */
  idempotencyHours: 24,
  /** How long the audit keeps what is not a catalog write → it is deleted */
  auditDays: 400,
  /** Records that a page of the audit looks at, if it is filtered → the page ends */
  auditLookedAt: 10_000,
  /** Records of a page of the audit with documents */
  auditDocuments: 20,
  /** Records of one account in an hour after which its sign-ins are not recorded → – */
  auditSignInsPerHour: 500,
  /** A text of a record in the audit, in characters → the rest is cut off */
  auditTextLength: 1_024,
  /** How long a sign-in code is valid → UNAUTHENTICATED */
  signInCodeMinutes: 5,
  /** How long the sign-in code that `muster serve` prints is valid → UNAUTHENTICATED */
  firstSignInCodeMinutes: 60,
  /** Valid sign-in codes of one key → the oldest is dropped */
  signInCodesPerKey: 20,
  /** Valid sign-in codes of one tenant → the oldest is dropped */
  signInCodesPerTenant: 1_000,
  /** How long the code of a command line that signs in is valid → its state is EXPIRED */
  loginMinutes: 10,
  /** Between two polls of such a command line → SLOW_DOWN, and 5 seconds more */
  loginPollSeconds: 2,
  /** What such a program says of itself, in characters */
  loginClientLength: 128,
  /** Command lines of one network address that wait for an approval → RESOURCE_EXHAUSTED */
  pendingLoginsPerAddress: 50,
  /** Command lines that wait for an approval, at all nodes → RESOURCE_EXHAUSTED */
  pendingLogins: 5_000,
  /** Codes of command lines that one account may enter in 10 minutes without one of them being right → RESOURCE_EXHAUSTED */
  wrongLoginCodes: 10,
  /** How long the key of a command line is valid after its last use → UNAUTHENTICATED */
  loginKeyDays: 90,
  /** Keys of command lines of one account → the one that was used longest ago is revoked */
  loginKeysPerAccount: 100,
  /** How long a sign-in at a provider may take → it has to be started again */
  signInMinutes: 10,
  /** How long an account acts with the role of its last sign-in, as its schedules do → UNAUTHENTICATED */
  signInDays: 90,
  /** Documents of the kind sign-in in a tenant → RESOURCE_EXHAUSTED */
  signInsPerTenant: 20,
  /** Rules in one list of a document of the kind sign-in */
  rulesPerSignIn: 100,
  /** Accepted sign-ins of a document that are kept, and as many that were refused or failed → the oldest is deleted */
  signInsKept: 50,
  /** Claims of a sign-in that are kept, in bytes → the longest are cut, or left out */
  claimBytes: 8 * 1024,
  /** Answers of the provider for one document that a process verifies in a second → the person has to try again */
  signInsPerSecond: 50,
  /** How long a browser session lasts without use → UNAUTHENTICATED */
  sessionIdleHours: 12,
  /** How long a browser session lasts → UNAUTHENTICATED */
  sessionDays: 7,
  /** Browser sessions of one key → the least recently used one ends */
  sessionsPerKey: 1000,
  /** Items in one runner's report */
  reportItems: 500,
  /** Text of one reported item, response or question, in characters */
  reportedTextLength: 256 * 1024,
  /** Hours, days or months of one request for usage */
  usageIntervals: 1500,
  /** `groupBy` of a request for usage */
  usageGroups: 3,
  /** How long usage is stored by the hour → by the day of UTC */
  usageHourDays: 400,
  /** Models and accounts that one report tells apart; the rest counts for the agent's model */
  usageParts: 20,
  /** A repository's diff in one report, in characters */
  diffLength: 384 * 1024,
  /** `context` of a diff: unchanged lines around each change */
  diffContextLines: 100,
  /** Up to this length, a repository's diff is stored with more context than three lines, in characters */
  wideDiffLength: 192 * 1024,
  /** Partials of one agent in a second: pieces of texts that it is producing → later pieces are longer, or dropped */
  partialsPerSecond: 10,
  /** `text` of a partial, in characters */
  partialTextLength: 2000,
  /** `key` of a partial, in characters */
  partialKeyLength: 256,
  /** Partials in one runner's request */
  partialsPerRequest: 100,
  /** Texts that a run is producing at the same time and that are shown → the oldest are not shown */
  partialTextsPerRun: 16,
  /** How much of the end of such a text a new reader of the stream gets, in characters → the beginning is left out */
  keptPartialLength: 8000,
  /** Steering messages that one run has at a time until its harness has taken them → the next ones wait */
  steersPerRun: 20,
  /** Reminders of unfinished tasks within one run → – */
  remindersPerRun: 3,
  /** Runs in a row whose runner died, before the agent is blocked → `phaseReason` BLOCKED */
  lostRunsInARow: 3,
  /**
   * How often in a row the service may fail on one report of a run with the same error → the run ends FAILED with the
   * code `REPORT_FAILED` and the incident number
   */
  equalReportFailures: 3,
  /** A runner's lease after its last poll (`MUSTER_LEASE_SECONDS`) → outcome LOST */
  leaseSeconds: 30,
  /**
   * How often an open wait or stream sends a few bytes (`MUSTER_KEEP_ALIVE_SECONDS`); a client that reads nothing for
   * two of these intervals is disconnected → the connection is closed
   */
  keepAliveSeconds: 15,
  /** Open waits, streams and polls of one key, at all workers of one `muster serve` → RESOURCE_EXHAUSTED */
  openRepliesPerKey: 10_000,
  /**
   * Agents that the open waits and streams of one key watch, at all workers of one `muster serve` → RESOURCE_EXHAUSTED
   */
  watchedAgentsPerKey: 100_000,
  /** An image of a message or of a tool; of a tool, a larger one is not stored */
  attachmentBytes: 5 * 1024 * 1024,
  /** Images of one message */
  attachmentsPerMessage: 10,
  /** Images of tools that a runner stores of one run → not stored */
  toolImagesPerRun: 20,
  /** Images of one agent that no run has received yet → RESOURCE_EXHAUSTED */
  undeliveredAttachmentBytes: 50 * 1024 * 1024,
  /** Images of one tenant (`MUSTER_TENANT_ATTACHMENTS_MB`) → RESOURCE_EXHAUSTED */
  attachmentBytesPerTenant: 10 * 1024 * 1024 * 1024,
  /** Images that arrive at one node at the same time → UNAVAILABLE */
  attachmentBytesInFlight: 64 * 1024 * 1024,
  /** A delivery of a code host */
  deliveryBytes: 25 * 1024 * 1024,
  /** Deliveries of one tenant that arrive at one node at the same time; of all tenants, twice as many → UNAVAILABLE */
  deliveryBytesInFlight: 64 * 1024 * 1024,
  /** The host's id of a delivery, in characters → the rest is cut off */
  deliveryIdLength: 256,
  /** How long a delivery can be listed and processed again → it is deleted */
  deliveryDays: 7,
  /** How long a delivery whose processing fails is tried again → its state is FAILED */
  deliveryRetryDays: 3,
  /**
   * Deliveries of one tenant that are not processed yet → UNAVAILABLE; the host sends them again, or the state is
   * compared
   */
  deliveriesWaitingPerTenant: 50_000,
  /** Processed deliveries of one integration → the oldest are deleted */
  deliveriesPerIntegration: 20_000,
  /** Why the service has paused a document, in characters → the rest is cut off */
  pausedReasonLength: 1000,
  /** Messages that one target of notifications gets in a minute → the others become one digest */
  notificationsPerMinute: 10,
  /** Browsers of one account that show notifications → RESOURCE_EXHAUSTED */
  pushSubscriptionsPerAccount: 20,
  /** A message by webhook → its texts are cut */
  notificationBytes: 19 * 1024,
  /** Events that wait to be sent to one target → the oldest are dropped */
  notificationsWaiting: 10_000,
  /** How long what was sent to a target can be listed and sent again → it is deleted */
  notificationDays: 7,
  /** Deliveries of one target that are listed → the oldest are deleted */
  notificationDeliveriesPerTarget: 10_000,
  /** A request to a trigger */
  triggerRequestBytes: 1024 * 1024,
  /** Documents of the kind `trigger` instead of `documentBytesPerKind` → RESOURCE_EXHAUSTED */
  triggerBytesPerTenant: 8 * 1024 * 1024,
  /** A text with `{{…}}` in a trigger, in characters */
  triggerTextLength: 32 * 1024,
  /** `{{…}}` in all texts of a trigger */
  triggerPlaceholders: 50,
  /** A value of a request where a text of a trigger has `{{…}}`, in bytes of UTF-8 → is cut */
  triggerValueBytes: 4 * 1024,
  /** Failed deliveries in a row after which a trigger is paused → its further deliveries are IGNORED */
  triggerFailures: 10,
  /** Between two comparisons of a change request that somebody asks for → RESOURCE_EXHAUSTED, with `Retry-After` */
  syncSeconds: 10,
  /** How long settled items of the outbox are stored; those about an open change request longer → they are deleted */
  outboxDays: 90,
} as const;

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProviderStub, startProviderStub } from '../provider/stub.ts';
import { Agents } from '../support/agents.ts';
import { apiOf } from '../support/api.ts';
import { writeResource } from '../support/catalog.ts';
import { gitIn, makeGitRemote } from '../support/git-remote.ts';
import { claudeProject, codexProject } from '../support/project-settings.ts';
import { theSandbox } from '../support/sandbox.ts';
import { type Service, startService } from './tools.ts';

/** Both harnesses, with models that the price table has. */
export const backends = [
  { title: 'Claude Code', model: 'claude-opus-4-8' },
  { title: 'Codex', model: 'gpt-5.5' },
] as const;

/** `muster serve` with real harnesses in the sandbox, and a stub of their providers. */
export interface AgentBench {
  readonly stub: ProviderStub;
  readonly service: Service;
  /** Agents in a workspace with one repository. */
  readonly agents: Agents;
  readonly folder: string;
  /** Another clone of the repository, by this name. */
  clone(name: string): string;
  close(): Promise<void>;
}

export async function startAgentBench(): Promise<AgentBench> {
  theSandbox();
  const stub = await startProviderStub();
  const folder = mkdtempSync(join(tmpdir(), 'muster-bench-agents-'));
  const service = await startService({
    ANTHROPIC_API_KEY: 'bench',
    ANTHROPIC_BASE_URL: stub.anthropicUrl,
    OPENAI_API_KEY: 'bench',
    OPENAI_BASE_URL: stub.openaiUrl,
    MUSTER_SANDBOX: 'required',
  });
  const remote = makeGitRemote(folder, 'code');
  remote.commit('main', { 'README.md': '# Demo\n', 'src/a.txt': 'a\n', ...claudeProject, ...codexProject });
  const api = apiOf(service);
  await writeResource(api, 'workspace', 'code', { repos: [remote.url] });
  return {
    stub,
    service,
    agents: new Agents(api, 'code'),
    folder,
    clone(name) {
      const path = join(folder, name);
      mkdirSync(path);
      gitIn(path, 'clone', '--quiet', remote.url, '.');
      return path;
    },
    async close() {
      await service.close();
      await stub.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

import { gzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import type { Service } from '../../bench/tools.ts';
import { Visitor } from '../../support/browser.ts';

/** The compressed size of the JavaScript that the home page loads. */
export async function firstLoadKb(browser: Browser, service: Service): Promise<number> {
  const scripts: Promise<Buffer>[] = [];
  const visitor = await Visitor.arrive(browser, service, {
    prepare: async (context) => {
      context.on('response', (response) => {
        if (response.request().resourceType() === 'script') scripts.push(response.body());
      });
    },
  });
  await visitor.page.getByRole('heading', { level: 1, name: 'Agents' }).waitFor();
  await visitor.page.getByText('No agents yet').waitFor();
  const bytes = (await Promise.all(scripts)).reduce((sum, body) => sum + gzipSync(body).length, 0);
  await visitor.leave();
  return bytes / 1024;
}

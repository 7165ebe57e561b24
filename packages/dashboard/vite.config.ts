import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

/** `npm run dev -w @muster/dashboard` serves the dashboard from its sources and proxies the API to this service. */
const service = process.env.MUSTER_URL ?? 'http://127.0.0.1:8420';

/** The fonts load in parallel with the scripts, so that the first text has the right font. */
const preloadFonts: Plugin = {
  name: 'preload-fonts',
  transformIndexHtml: {
    order: 'post',
    handler: (_html, { bundle = {} }) =>
      Object.keys(bundle)
        .filter((file) => file.endsWith('.woff2'))
        .map((file) => ({
          tag: 'link',
          attrs: { rel: 'preload', as: 'font', type: 'font/woff2', crossorigin: '', href: `/${file}` },
          injectTo: 'head',
        })),
  },
};

export default defineConfig({
  plugins: [react(), preloadFonts],
  server: { proxy: { '/v1': service, '/docs': service, '/openapi.json': service } },
  worker: { format: 'es' },
  build: {
    outDir: '../service/static/dashboard',
    emptyOutDir: true,
    target: 'es2023',
    // No inlined assets: the content security policy forbids data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { index: 'index.html', 'service-worker': 'src/worker/service-worker.ts' },
      output: {
        // The scope of a service worker is the folder that it is in.
        entryFileNames: ({ name }) => (name === 'service-worker' ? '[name].js' : 'assets/[name]-[hash].js'),
      },
    },
    reportCompressedSize: false,
    // `npm run package` reads it. The service serves no file of this folder.
    license: { fileName: '.vite/licenses.json' },
    // A test limits the compressed size of the first load.
    chunkSizeWarningLimit: 1000,
  },
});

import { QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense, useCallback, useEffect, useMemo, useState } from 'react';
import { Redirect, Route, Switch, useLocation } from 'wouter';
import { HomePage } from './home/view/home-page.tsx';
import { Fleet, FleetContext } from './live/fleet.ts';
import { queryClientFor } from './live/resources.ts';
import { useRenewedNotifications } from './notify/renew.ts';
import { Empty, useShortcuts } from './parts/page.tsx';
import { ErrorBoundary } from './parts/problem.tsx';
import { type Session, SignedInContext, useSession } from './session/session.ts';
import { SwitchDialog } from './session/session-dialogs.tsx';
import { SignInPage } from './session/sign-in-page.tsx';
import { useBadge } from './shell/badge.ts';
import { ConnectionBanner, Header } from './shell/header.tsx';
import { isPaletteKey } from './shell/palette-key.ts';
import { closeSpawn, openSpawn, useSpawnPreset } from './spawn/open-spawn.ts';

/** The list needs neither. Both are loaded soon after it, so that they open immediately. */
const loadAgentPage = () => import('./agent/view/agent-page.tsx');
const loadSpawnDialog = () => import('./spawn/view/spawn-dialog.tsx');
const AgentPage = lazy(async () => ({ default: (await loadAgentPage()).AgentPage }));
const SpawnDialog = lazy(async () => ({ default: (await loadSpawnDialog()).SpawnDialog }));
const Palette = lazy(async () => ({ default: (await import('./palette/view/palette.tsx')).Palette }));
const HelpDialog = lazy(async () => ({ default: (await import('./shell/help-dialog.tsx')).HelpDialog }));
const loadAfterMs = 1_500;

// Together with the session.
if (location.pathname.startsWith('/agents/')) void loadAgentPage();

function useSoonNeeded(): void {
  useEffect(() => {
    // What fails is loaded where it is needed.
    const load = () => void Promise.allSettled([loadAgentPage(), loadSpawnDialog()]);
    const timer = setTimeout(load, loadAfterMs);
    return () => clearTimeout(timer);
  }, []);
}

/** Loaded on demand: the YAML editor is larger than the rest of the dashboard. */
const CatalogPage = lazy(async () => ({
  default: (await import('./catalog/view/catalog-page.tsx')).CatalogPage,
}));

const RunnersPage = lazy(async () => ({
  default: (await import('./runners/view/runners-page.tsx')).RunnersPage,
}));

const SchedulesPage = lazy(async () => ({
  default: (await import('./schedules/view/schedules-page.tsx')).SchedulesPage,
}));

const NotificationsPage = lazy(async () => ({
  default: (await import('./notify/view/notifications-page.tsx')).NotificationsPage,
}));

const TeamPage = lazy(async () => ({ default: (await import('./team/view/team-page.tsx')).TeamPage }));

const SettingsPage = lazy(async () => ({
  default: (await import('./settings/view/settings-page.tsx')).SettingsPage,
}));

const ActivityPage = lazy(async () => ({
  default: (await import('./activity/view/activity-page.tsx')).ActivityPage,
}));

const DevicePage = lazy(async () => ({ default: (await import('./device/device-page.tsx')).DevicePage }));

const InboxPage = lazy(async () => ({ default: (await import('./inbox/view/inbox-page.tsx')).InboxPage }));

const SpendPage = lazy(async () => ({ default: (await import('./spend/view/spend-page.tsx')).SpendPage }));

export function App() {
  const session = useSession();
  switch (session.state) {
    case 'opening':
      return null;
    case 'out':
      return <SignInPage key={session.reason} reason={session.reason} />;
    case 'in':
      return <SignedInApp key={session.id} session={session} />;
  }
}

function SignedInApp({ session }: { readonly session: Extract<Session, { state: 'in' }> }) {
  const { client, caller } = session;
  const queryClient = useMemo(queryClientFor, []);
  const signedIn = useMemo(() => ({ client, caller }), [client, caller]);
  const fleet = useMemo(() => new Fleet(client, caller), [client, caller]);
  useEffect(() => fleet.start(), [fleet]);
  return (
    <QueryClientProvider client={queryClient}>
      <SignedInContext value={signedIn}>
        <FleetContext value={fleet}>
          <Pages />
          <SwitchDialog />
        </FleetContext>
      </SignedInContext>
    </QueryClientProvider>
  );
}

const Failed = () => (
  <Empty title="This page can't be shown" isPage>
    <p>An unexpected error occurred. Reload the page, or go back to the agents.</p>
    <p>
      <a href="/">Go to agents</a>
    </p>
  </Empty>
);

/** Each page at its address. */
const Routes = () => (
  <Switch>
    <Route path="/">
      <HomePage onSpawn={() => openSpawn()} />
    </Route>
    <Route path="/agents/*">
      <AgentPage />
    </Route>
    <Route path="/inbox">
      <InboxPage />
    </Route>
    <Route path="/catalog/:kind?/:name?">
      <CatalogPage />
    </Route>
    <Route path="/spend">
      <SpendPage />
    </Route>
    <Route path="/runners">
      <RunnersPage />
    </Route>
    <Route path="/schedules/:name?">
      <SchedulesPage />
    </Route>
    <Route path="/notifications">
      <NotificationsPage />
    </Route>
    <Route path="/team">
      <TeamPage />
    </Route>
    <Route path="/settings">
      <SettingsPage />
    </Route>
    <Route path="/activity">
      <ActivityPage />
    </Route>
    <Route path="/device">
      <DevicePage />
    </Route>
    <Route path="/sign-in">
      <Redirect to="/" />
    </Route>
    <Route>
      <Empty title="Page not found" isPage>
        <p>
          <a href="/">Go to agents</a>
        </p>
      </Empty>
    </Route>
  </Switch>
);

/** Ctrl+K opens and closes the palette, also from a field. */
function usePaletteKey(): readonly [isOpen: boolean, setOpen: (isOpen: boolean) => void] {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (!isPaletteKey(event) || event.defaultPrevented) return;
      // The browser would search the web.
      event.preventDefault();
      setOpen((isOpen) => !isOpen && !document.querySelector('dialog[open]'));
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
  return [isOpen, setOpen];
}

function Pages() {
  const [address, navigate] = useLocation();
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [isPaletteOpen, setPaletteOpen] = usePaletteKey();
  const openHelp = useCallback(() => setHelpOpen(true), []);
  const spawnPreset = useSpawnPreset();
  useBadge();
  useRenewedNotifications();
  useSoonNeeded();
  useShortcuts({
    n: () => openSpawn(),
    '?': openHelp,
    g: () => navigate('/'),
    i: () => navigate('/inbox'),
    c: () => navigate('/catalog'),
    u: () => navigate('/spend'),
    r: () => navigate('/runners'),
    t: () => navigate('/schedules'),
    e: () => navigate('/team'),
    ',': () => navigate('/settings'),
    a: () => navigate('/activity'),
  });
  return (
    <>
      <a className="skip-link" href="#main">
        Skip to content
      </a>
      <Header onSpawn={() => openSpawn()} onHelp={openHelp} onPalette={() => setPaletteOpen(true)} />
      <ConnectionBanner />
      <main id="main" tabIndex={-1}>
        <ErrorBoundary fallback={<Failed />} resetBy={address}>
          <Suspense fallback={<p className="page-loading">Loading …</p>}>
            <Routes />
          </Suspense>
        </ErrorBoundary>
      </main>
      {spawnPreset && (
        <Suspense>
          <SpawnDialog preset={spawnPreset} onClose={closeSpawn} />
        </Suspense>
      )}
      <Suspense>
        {isHelpOpen && <HelpDialog onClose={() => setHelpOpen(false)} />}
        {isPaletteOpen && <Palette onHelp={openHelp} onClose={() => setPaletteOpen(false)} />}
      </Suspense>
    </>
  );
}

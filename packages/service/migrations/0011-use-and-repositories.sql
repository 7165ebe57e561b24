-- What tenants and accounts use, and which workspaces list a repository.
-- compatible since: 1

-- Of the current document: its bytes with those of a sealed value, who created it, and the generation that this and the
-- rows of workspace_repositories describe. A row that a build before this one wrote has another generation: the service
-- describes it again.
ALTER TABLE resources ADD COLUMN bytes bigint, ADD COLUMN created_by text, ADD COLUMN indexed bigint;

-- The workspaces that list a repository, by a digest of its host and path (lib/repositories.ts).
CREATE TABLE workspace_repositories (
  tenant    int  NOT NULL REFERENCES tenants,
  repo      text NOT NULL,
  workspace text NOT NULL,
  PRIMARY KEY (tenant, repo, workspace)
);
CREATE INDEX workspace_repositories_by_workspace ON workspace_repositories (tenant, workspace);

-- What the agents and catalog writes of an account have stored, in bytes: added to as it is written, about once a second
-- and node, and counted again by maintenance, because what is deleted is not subtracted.
CREATE TABLE storage_use (
  tenant         int         NOT NULL,
  owner_provider text        NOT NULL,
  account        text        NOT NULL,
  bytes          bigint      NOT NULL,
  counted_at     timestamptz,
  PRIMARY KEY (tenant, owner_provider, account)
) WITH (fillfactor = 70);

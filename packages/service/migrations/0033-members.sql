-- The people of a tenant: who signed in through a provider, and what admins decided about an account.
-- compatible since: 1
CREATE TABLE members (
  tenant         int         NOT NULL REFERENCES tenants,
  owner_provider text        NOT NULL,
  account        text        NOT NULL,
  display_name   text        NOT NULL DEFAULT '',
  -- An admin's decision: none of the account's keys and sessions works.
  disabled       boolean     NOT NULL DEFAULT false,
  -- An admin's decision: replaces the role that the rules of the sign-in give.
  role_override  text,
  -- The identity that the account's name is bound to, and the document that it signed in with; null without a sign-in.
  sign_in        text,
  issuer         text,
  subject        text,
  -- The role of the last sign-in, the rule that gave it, and the claims that arrived.
  role           text,
  rule           json,
  claims         json,
  signed_in_at   timestamptz,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant, owner_provider, account)
);
CREATE UNIQUE INDEX members_by_identity ON members (tenant, issuer, subject) WHERE subject IS NOT NULL;

# What the images of PostgreSQL and HAProxy do at their start, as far as compose.yaml needs it.
set -eu
[ "$1" = postgres ] || exec "$@"
programs=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
chown postgres /var/lib/postgresql
if [ ! -e "$data/PG_VERSION" ]; then
  install -d -o postgres -m 700 "$data"
  cp "$POSTGRES_PASSWORD_FILE" /tmp/password
  chown postgres /tmp/password
  su postgres -c "$programs/initdb -D $data -U $POSTGRES_USER --pwfile=/tmp/password --auth=scram-sha-256"
  echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | su postgres -c "$programs/postgres --single -D $data postgres"
fi
exec su postgres -c "exec $programs/postgres -D $data -c listen_addresses='*'"

// Tests node-postgres with a FleetDB server: NODE_PATH=node_modules node node.js PORT
const assert = require('assert');
const { Client } = require('pg');

async function main() {
  const client = new Client({ host: '127.0.0.1', port: Number(process.argv[2]), user: 'me', database: 'fleetdb' });
  await client.connect();
  await client.query('CREATE TABLE node (id BIGINT, ts TIMESTAMPTZ, kwh DOUBLE, note TEXT, PRIMARY KEY (id, ts))');
  const start = Date.UTC(2026, 0, 1);
  await client.query('BEGIN');
  for (let hour = 0; hour < 20; hour++) {
    const done = await client.query({
      name: 'insert',
      text: 'INSERT INTO node VALUES ($1, $2, $3, $4)',
      values: [7, new Date(start + hour * 3600e3), hour * 0.5, hour === 3 ? null : `hour ${hour}`],
    });
    assert.strictEqual(done.rowCount, 1);
  }
  await client.query('COMMIT');
  const { rows } = await client.query('SELECT * FROM node WHERE id = $1 AND ts >= $2 ORDER BY ts', [7, new Date(start + 3 * 3600e3)]);
  assert.strictEqual(rows.length, 17);
  assert.deepStrictEqual(rows[0], { id: '7', ts: new Date(start + 3 * 3600e3), kwh: 1.5, note: null });
  await assert.rejects(client.query('SELECT nothing FROM node'), (error) => error.code.startsWith('42'));
  await assert.rejects(client.query('SELECT $1::BIGINT + 1', ['no number']), (error) => error.code.startsWith('22'));
  assert.strictEqual((await client.query('SELECT count(*) AS n FROM node')).rows[0].n, '20');
  // Parameters are sent as text; the statement determines their types. An array is one of them.
  const changed = await client.query('UPDATE node SET kwh = kwh + $1 WHERE id = $2 AND note = ANY($3)', [0.5, 7, ['hour 1', 'hour 2']]);
  assert.strictEqual(changed.rowCount, 2);
  const some = await client.query('SELECT sum(kwh), count(*) FROM node WHERE id = ANY($1) AND ts <= $2', [[7, 8], new Date(start + 2 * 3600e3)]);
  assert.deepStrictEqual(some.rows[0], { sum: 2.5, count: '3' });
  // As Knex, Sequelize and TypeORM write upserts.
  const all = ['id', 'ts', 'kwh', 'note'].map((column) => `"${column}" = excluded."${column}"`).join(', ');
  const merged = await client.query(`INSERT INTO node ("id", "ts", "kwh") VALUES ($1, $2, $3) ON CONFLICT ("id", "ts") DO UPDATE SET ${all}`, [7, new Date(start), 5]);
  assert.strictEqual(merged.rowCount, 1);
  assert.deepStrictEqual((await client.query('SELECT kwh, note FROM node ORDER BY ts LIMIT $1 OFFSET $2', [1, 0])).rows, [{ kwh: 5, note: null }]);
  assert.deepStrictEqual((await client.query('SELECT * FROM current_schema()')).rows, [{ current_schema: 'public' }]);
  const index = 'SELECT array_agg(a.attname) AS names FROM pg_index i, pg_attribute a, pg_class t WHERE a.attrelid = t.oid AND t.oid = i.indrelid AND t.relname = $1';
  assert.strictEqual((await client.query(index, ['node'])).rows[0].names, '{id,ts,kwh,note}');
  const written = await client.query('INSERT INTO node (id, ts, kwh) VALUES ($1, $2, $3) RETURNING id, ts', [9, new Date(start), 1]);
  assert.deepStrictEqual([written.command, written.rowCount, written.rows[0]], ['INSERT', 1, { id: '9', ts: new Date(start) }]);
  await client.end();
  // The driver sends statement_timeout when it connects.
  const hasty = new Client({ host: '127.0.0.1', port: Number(process.argv[2]), user: 'me', database: 'fleetdb', statement_timeout: 200 });
  await hasty.connect();
  await assert.rejects(hasty.query('SELECT count(*) FROM generate_series(1, 1000000000000)'), (error) => error.code === '57014');
  await hasty.end();
  console.log('all is well');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

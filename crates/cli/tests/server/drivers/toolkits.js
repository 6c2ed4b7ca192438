// Tests toolkits on top of node-postgres, and postgres.js, with a FleetDB server: NODE_PATH=node_modules node toolkits.js PORT
const assert = require('assert');
const connection = { host: '127.0.0.1', port: Number(process.argv[2]), user: 'me', database: 'fleetdb' };
const start = new Date(Date.UTC(2026, 0, 1));

async function postgresJs() {
  const sql = require('postgres')(connection);
  await sql`CREATE TABLE js (id BIGINT, ts TIMESTAMPTZ, kwh DOUBLE PRECISION, note TEXT, PRIMARY KEY (id, ts))`;
  await sql`INSERT INTO js ${sql([{ id: 1, ts: start, kwh: 1.5, note: 'a' }, { id: 2, ts: start, kwh: 2.5, note: null }])}`;
  assert.deepStrictEqual([...await sql`SELECT count(*), max(kwh) FROM js WHERE id IN ${sql([1, 2])}`], [{ count: '2', max: 2.5 }]);
  assert.strictEqual((await sql`SELECT * FROM js WHERE id = ANY(${[1, 7]})`).length, 1);
  const changed = await sql.begin(async (sql) => {
    await sql`UPDATE js SET kwh = kwh + ${1} WHERE id = ${1}`;
    return sql`SELECT kwh FROM js WHERE id = 1`;
  });
  assert.strictEqual(changed[0].kwh, 2.5);
  const note = await sql`INSERT INTO js ${sql({ id: 3, ts: start, kwh: null, note: 'c' })} RETURNING note, ts`;
  assert.deepStrictEqual([...note], [{ note: 'c', ts: start }]);
  let rows = 0;
  await sql`SELECT * FROM generate_series(1, 100)`.cursor(30, (part) => { rows += part.length; });
  assert.strictEqual(rows, 100);
  await sql.end();
}

async function knex() {
  const db = require('knex')({ client: 'pg', connection });
  await db.schema.createTable('knexed', (table) => {
    table.bigInteger('id').notNullable();
    table.timestamp('ts').notNullable();
    table.double('kwh');
    table.primary(['id', 'ts']);
  });
  assert.deepStrictEqual([await db.schema.hasTable('knexed'), await db.schema.hasTable('nothing')], [true, false]);
  assert.strictEqual((await db('knexed').columnInfo()).kwh.type, 'double precision');
  await db('knexed').insert([{ id: 1, ts: start, kwh: 1 }, { id: 2, ts: start, kwh: 2 }]);
  await db('knexed').insert({ id: 1, ts: start, kwh: 5 }).onConflict(['id', 'ts']).merge();
  assert.deepStrictEqual(await db('knexed').insert({ id: 4, ts: start, kwh: 1 }).returning(['id', 'kwh']), [{ id: '4', kwh: 1 }]);
  assert.deepStrictEqual(await db('knexed').where({ id: 4 }).del('ts'), [{ ts: start }]);
  await db('knexed').where({ id: 1 }).increment('kwh', 2);
  assert.deepStrictEqual(await db('knexed').count('* as n').max('kwh').first(), { n: '2', max: 7 });
  await db.transaction(async (transaction) => {
    await transaction('knexed').insert({ id: 3, ts: start, kwh: 3 });
    await transaction('knexed').whereIn('id', [2, 3]).del();
  });
  assert.deepStrictEqual((await db('knexed').select('id')).map((row) => row.id), ['1']);
  await db.destroy();
}

async function sequelize() {
  const { Sequelize, DataTypes } = require('sequelize');
  const db = new Sequelize('fleetdb', 'me', '', { ...connection, dialect: 'postgres', logging: false });
  const columns = { id: { type: DataTypes.BIGINT, primaryKey: true }, ts: { type: DataTypes.DATE, primaryKey: true }, kwh: DataTypes.DOUBLE };
  const Read = db.define('Read', columns, { tableName: 'sequelized', timestamps: false });
  await db.sync();
  await Read.bulkCreate([{ id: 1, ts: start, kwh: 1 }, { id: 2, ts: start, kwh: 2 }]);
  const third = await Read.create({ id: 3, ts: start, kwh: 3 });
  assert.strictEqual((await third.update({ kwh: 4 })).kwh, 4);
  assert.deepStrictEqual((await Read.update({ kwh: 5 }, { where: { id: 3 }, returning: true }))[1][0].kwh, 5);
  await third.destroy();
  assert.strictEqual(await Read.sum('kwh', { where: { id: [1, 2] } }), 3);
  assert.deepStrictEqual((await Read.findAll({ order: ['id'], limit: 1, raw: true })), [{ id: '1', ts: start, kwh: 1 }]);
  const described = await db.getQueryInterface().describeTable('sequelized');
  assert.deepStrictEqual(Object.values(described).map((column) => column.primaryKey), [true, true, false]);
  await db.close();
}

async function typeorm() {
  const { DataSource, EntitySchema } = require('typeorm');
  const columns = { id: { type: 'bigint', primary: true }, ts: { type: 'timestamptz', primary: true }, kwh: { type: 'double precision', nullable: true } };
  const Read = new EntitySchema({ name: 'Read', tableName: 'typed', columns });
  const db = new DataSource({ type: 'postgres', ...connection, username: 'me', entities: [Read] });
  await db.initialize();
  await db.synchronize();
  const reads = db.getRepository('Read');
  await reads.save([{ id: 1, ts: start, kwh: 1 }, { id: 2, ts: start, kwh: 2 }]);
  await reads.save({ id: 1, ts: start, kwh: 4 });
  await reads.upsert([{ id: 2, ts: start, kwh: 8 }], ['id', 'ts']);
  assert.deepStrictEqual((await reads.find({ order: { id: 'ASC' } })).map((read) => read.kwh), [4, 8]);
  await db.destroy();
}

async function main() {
  for (const toolkit of [postgresJs, knex, sequelize, typeorm]) await toolkit();
  console.log('all is well');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

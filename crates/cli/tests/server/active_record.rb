# Runs what Rails' ActiveRecord does over Ruby's pg.
require 'active_record'

ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: '127.0.0.1', port: ARGV[0], username: 'me', database: 'fleetdb')
DB = ActiveRecord::Base.connection

class Meter < ActiveRecord::Base; end
class Read < ActiveRecord::Base; end

def equal(found, expected)
  raise "#{found.inspect} is not #{expected.inspect}" unless found == expected
end

DB.execute('CREATE TABLE meters (id BIGINT PRIMARY KEY, place TEXT, kw DOUBLE PRECISION, since TIMESTAMP)')
DB.execute('CREATE TABLE reads (meter_id BIGINT, ts TIMESTAMP, v DOUBLE PRECISION, PRIMARY KEY (meter_id, ts))')
equal(DB.tables.sort, %w[meters reads])
equal(Meter.columns.map { |column| [column.name, column.type] }, [['id', :integer], ['place', :text], ['kw', :float], ['since', :datetime]])
equal(DB.primary_keys('reads'), %w[meter_id ts])
equal(DB.foreign_keys('reads'), [])

start = Time.utc(2026, 1, 1)
Meter.create!(id: 1, place: 'cellar', kw: 1.5, since: start)
Meter.find(1).update!(kw: 2.5)
equal(Meter.find(1).attributes.values, [1, 'cellar', 2.5, start])
Meter.upsert_all([{ id: 1, place: 'up', kw: 3.0, since: nil }, { id: 2, place: 'new', kw: nil, since: start }], unique_by: :id)
equal(Meter.where('kw > ?', 1).order(:id).pluck(:id, :place), [[1, 'up']])
Read.upsert_all((0...120).map { |minute| { meter_id: 1, ts: start + 60 * minute, v: minute } }, unique_by: %i[meter_id ts], returning: false)
equal(Read.group("date_trunc('hour', ts)").count, { start => 60, start + 3600 => 60 })
equal(Read.where(meter_id: 1, ts: start..start + 120).average(:v), 1.0)

ActiveRecord::Base.transaction do
  Meter.create!(id: 3)
  ActiveRecord::Base.transaction(requires_new: true) do
    Meter.create!(id: 4)
    raise ActiveRecord::Rollback
  end
end
equal(Meter.where(id: 3..4).pluck(:id), [3])
equal(Meter.find_each(batch_size: 2).count, 3)
equal(Meter.where(id: 2..3).delete_all, 2)

# The lock that a migration holds while it runs.
equal(DB.get_advisory_lock(77), true)
other = PG.connect(host: '127.0.0.1', port: ARGV[0], user: 'me', dbname: 'fleetdb')
try = -> { other.exec('SELECT pg_try_advisory_lock(77)').getvalue(0, 0) }
equal(try.call, 'f')
begin
  other.exec('SELECT pg_advisory_lock(77)')
  raise 'a lock was taken twice'
rescue PG::LockNotAvailable
end
equal(DB.release_advisory_lock(77), true)
equal(try.call, 't')
other.close

schema = StringIO.new
ActiveRecord::SchemaDumper.dump(DB, schema)
raise schema.string unless schema.string.include?('create_table "reads", primary_key: ["meter_id", "ts"]')
puts 'all is well'
